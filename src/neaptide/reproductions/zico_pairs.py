"""Zico's evaluation on one device: its pairs, its example, and its pairs when memory is oversubscribed further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.units import parse_bytes
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import LADDERS, Member, PairResult, find_member, least_budget, member_order, run_pair

POLICIES = ("temporal", "spatial-paged", "ticktock", "zico", "neaptide")
# The paper's eleven pairs, with the GPU utilisation of each job in per cent.
PAIRS = (
    ("GT", 90, "RH", 60),
    ("RH", 90, "GT", 35),
    ("NN", 80, "GT", 45),
    ("NN", 60, "GT", 50),
    ("NN", 30, "GT", 90),
    ("BT", 80, "GT", 40),
    ("BT", 60, "GT", 50),
    ("BT", 45, "NN", 90),
    ("RN", 95, "NN", 30),
    ("RN", 70, "GT", 60),
    ("NN", 45, "RN", 80),
)
LABELS = tuple(f"{a}{u}-{b}{v}" for a, u, b, v in PAIRS)
IDENTICAL = (50, 80)  # per cent, for each network
EXAMPLE_BUDGET = parse_bytes("11GB")
EXAMPLE = (Member("NN", "nasnet-mobile", 96), Member("RN", "resnet110", 768))  # their peaks sum to 13 GB
# The sum of peaks over the memory. The paper says that MPS is always oversubscribed on these pairs, not how far.
OVERSUBSCRIBED = (1.1, 1.25, 1.5)
PAGED = ("temporal", "spatial-paged", "zico")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All runs on one device. `oversubscribed` has the pairs that can take turns in so little memory."""

    device: str
    different: Sequence[PairResult]  # in the order of PAIRS
    identical: Sequence[PairResult]
    example: PairResult
    oversubscribed: dict[float, Sequence[PairResult]]

    @property
    def everything(self) -> list[PairResult]:
        return [*self.different, *self.identical, self.example]


def evaluate(laboratory: Laboratory) -> Evaluation:
    """Run all pairs on the laboratory's device."""
    wanted = [(short, use) for first, u, second, v in PAIRS for short, use in ((first, u), (second, v))]
    wanted += [(short, use) for short in LADDERS for use in IDENTICAL]
    found = {(short, use): find_member(laboratory, short, use) for short, use in wanted}
    same = sorted({found[short, use] for short in LADDERS for use in IDENTICAL}, key=member_order)
    different = [(found[first, u], found[second, v]) for first, u, second, v in PAIRS]
    for member in EXAMPLE:
        laboratory.trace(member.model, member.batch)
    pairs = [*different, *((each, each) for each in same)]
    results: list[PairResult] = []
    with progress(f"simulating pairs on {laboratory.device.name}") as on_progress:
        for pair in pairs:
            on_progress(len(results), len(pairs) + 1)
            results.append(run_pair(laboratory, pair, POLICIES))
        budget = min(EXAMPLE_BUDGET, laboratory.device.memory_bytes)
        example = run_pair(laboratory, EXAMPLE, POLICIES, budget_bytes=budget, keep=True)
    return Evaluation(
        device=laboratory.device.name,
        different=results[: len(PAIRS)],
        identical=results[len(PAIRS) :],
        example=example,
        oversubscribed={factor: _oversubscribe(laboratory, different, factor) for factor in OVERSUBSCRIBED},
    )


def _oversubscribe(
    laboratory: Laboratory, pairs: Sequence[tuple[Member, Member]], factor: float
) -> Sequence[PairResult]:
    results = []
    for pair in pairs:
        first, second = (laboratory.profile(each.model, each.batch) for each in pair)
        budget = min(round((first.peak_bytes + second.peak_bytes) / factor), laboratory.device.memory_bytes)
        if budget >= least_budget(first, second):
            results.append(run_pair(laboratory, pair, PAGED, budget_bytes=budget))
    return results


def pairs_in_whole_memory(
    laboratory: Laboratory, policy: str, priorities: tuple[int, int] = (0, 0)
) -> Sequence[PairResult]:
    """The eleven pairs under a policy and in turns, with all of the device's memory; the runs are kept."""
    results: list[PairResult] = []
    with progress("simulating pairs") as on_progress:
        for first, u, second, v in PAIRS:
            on_progress(len(results), len(PAIRS))
            members = find_member(laboratory, first, u), find_member(laboratory, second, v)
            memory_bytes = laboratory.device.memory_bytes
            names = ("temporal", policy)
            results.append(
                run_pair(laboratory, members, names, budget_bytes=memory_bytes, keep=True, priorities=priorities)
            )
    return results
