"""What `neaptide verify` found out: one line for each promise."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Whether a promise is kept."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "could not be judged"


class Line(msgspec.Struct, frozen=True):
    """One promise, the verdict, and what was measured."""

    subject: str
    verdict: Verdict
    text: str
    figures: Mapping[str, float] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole verification; its JSON is what owners of a GPU are asked for."""

    neaptide: str
    torch: str
    device: str
    kind: str
    jobs: tuple[str, ...]
    budget_bytes: int
    quick: bool
    began_at: str
    seconds: float
    lines: tuple[Line, ...]

    @property
    def failed(self) -> bool:
        return any(line.verdict is Verdict.FAILED for line in self.lines)
