"""Runs `neaptide reproduce` for a test: the printed text, and the JSON values of the last line."""

from __future__ import annotations

import json
from typing import Any

HEADINGS = ["Claims of the paper", "Our own goals", "In what our setting differs", "Unknown", "Why ours differs"]


def headings_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line in HEADINGS]


def reproduced(run: Any, *words: object) -> tuple[str, dict[str, Any]]:
    outcome = run("reproduce", *words, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    *lines, last = outcome.out.splitlines()
    values: dict[str, Any] = json.loads(last)
    return "\n".join(lines), values
