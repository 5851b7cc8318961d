"""Runs `neaptide reproduce` for a test: the printed text, and the JSON values of the last line."""

from __future__ import annotations

import json
from typing import Any


def reproduced(run: Any, *words: object) -> tuple[str, dict[str, Any]]:
    outcome = run("reproduce", *words, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    *lines, last = outcome.out.splitlines()
    values: dict[str, Any] = json.loads(last)
    return "\n".join(lines), values
