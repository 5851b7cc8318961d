"""What a paper claims, what we found, and the verdict; `Claim.verdict` is the only place where a verdict is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """How we know a published figure."""

    STATED = "stated"  # in the paper's text or in a summary of it that we hold
    PUBLIC = "public"  # read in public code or documentation
    RECALLED = "recalled"  # from memory, not re-checked


class Mark(Enum):
    """Why our figure cannot confirm a claim even if it agrees."""

    FITTED = "fitted"  # an input was fitted to the published figure, or to one of the same experiment
    CHOSEN = "chosen after trying"  # a part of the setting was chosen after other choices had been tried


class Verdict(Enum):
    """What our figure says of a claim."""

    HOLDS = "holds"
    DOES_NOT = "does not hold"
    CANNOT = "cannot be judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published figure or statement beside ours.

    `agrees` says whether our figure supports the claim: None if there is nothing to compare, or if the two figures
    count different things. `other_setting` says how our setting differs from the paper's, and is empty if it does not.
    """

    says: str
    published: str
    source: Source
    ours: str
    agrees: bool | None
    other_setting: str = ""
    marked: Sequence[Mark] = ()

    @property
    def same_setting(self) -> bool:
        return not self.other_setting

    @property
    def marks(self) -> list[str]:
        """Every reason why the claim cannot count as holding."""
        recalled = [self.source.value] if self.source is Source.RECALLED else []
        return recalled + [mark.value for mark in self.marked]

    @property
    def verdict(self) -> Verdict:
        """A marked claim never holds, but it can fail; a fitted figure says nothing either way."""
        if self.agrees is None or Mark.FITTED in self.marked:
            return Verdict.CANNOT
        if not self.agrees:
            return Verdict.DOES_NOT
        return Verdict.CANNOT if self.marks else Verdict.HOLDS


def count_verdicts(claims: Sequence[Claim]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    return {verdict: sum(claim.verdict is verdict for claim in claims) for verdict in Verdict}


def other_settings(claims: Sequence[Claim]) -> list[str]:
    """In what our setting differs from the paper's, each difference once."""
    return list(dict.fromkeys(claim.other_setting for claim in claims if claim.other_setting)) or ["It does not."]


def totals(claims: Sequence[Claim]) -> str:
    """How many of all claims hold, in one sentence, and what never counts as holding."""
    holding = [claim for claim in claims if claim.verdict is Verdict.HOLDS]
    same = sum(claim.same_setting for claim in holding)
    return (
        f"{len(holding)} of {len(claims)} claims hold, {same} of them in the paper's own setting. A figure that was "
        "recalled, fitted or chosen after trying never counts as holding. Nothing here ran on a GPU."
    )
