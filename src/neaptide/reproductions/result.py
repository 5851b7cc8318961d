"""The result of a reproduced experiment: tables, the paper's claims beside our figures, our own goals, and notes.

The notes say what is unknown of the paper and why our figures differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neaptide.reproductions.claims import Claim


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, its name in JSON, and how to write a value. Without a heading it is in JSON only."""

    head: str
    key: str
    show: Callable[[Any], str] = str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values; None is shown as a dash."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def values(self) -> list[dict[str, Any]]:
        return [dict(zip((column.key for column in self.columns), row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of our own, of which the paper says nothing: what we found, and whether the goal holds."""

    says: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A whole experiment. `figures` maps a file name to the function that draws that figure."""

    paper: str
    device: str
    setting: Sequence[str]
    tables: Sequence[Table]
    claims: Sequence[Claim]
    goals: Sequence[Goal]
    unknown: Sequence[str]
    differs: Sequence[str]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)


def percent(value: float) -> str:
    """A share in whole per cent."""
    return f"{value:.0%}"


def reproduction_values(found: Reproduction) -> dict[str, Any]:
    """The result for a program."""
    return {
        "paper": found.paper,
        "device": found.device,
        "setting": list(found.setting),
        "tables": {table.key: table.values() for table in found.tables},
        "claims": [claim_values(claim) for claim in found.claims],
        "goals": [{"says": goal.says, "found": goal.found, "holds": goal.holds} for goal in found.goals],
        "unknown": list(found.unknown),
        "differs": list(found.differs),
    }


def claim_values(claim: Claim) -> dict[str, Any]:
    """A claim and its verdict, for a program or a page."""
    return {
        "says": claim.says,
        "published": claim.published,
        "source": claim.source.value,
        "ours": claim.ours,
        "same_setting": claim.same_setting,
        "other_setting": claim.other_setting,
        "marks": claim.marks,
        "verdict": claim.verdict.value,
    }
