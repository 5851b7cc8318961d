"""One line of a checkup."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """Whether sharing works with it."""

    OK = "ok"
    WARNING = "warning"  # it works, but less well
    FAILURE = "failure"  # it does not


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and what to do about it."""

    subject: str
    grade: Grade
    text: str
    remedy: str = ""  # empty when there is nothing to do
