"""Wavelet's tick-tock (MLSys'21): two replicas of a job, the second half an iteration behind the first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import mean

from neaptide.core.units import format_bytes
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import LADDERS, NOISE, ROUNDS, PairResult, find_member, member_order, run_pair
from neaptide.reproductions.result import Column, Goal, Reproduction, Table, percent

DEVICE = "V100-16GB"
POLICIES = ("temporal", "ticktock", "zico", "neaptide")
UTILISATIONS = (30, 50, 80)  # per cent


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run two replicas of every network at several utilisations."""
    members = {find_member(laboratory, short, use) for short in LADDERS for use in UTILISATIONS}
    order = sorted(members, key=member_order)
    results: list[PairResult] = []
    with progress("simulating replicas") as on_progress:
        for member in order:
            on_progress(len(results), len(order))
            results.append(run_pair(laboratory, (member, member), POLICIES))
    return _report(laboratory, results)


def _report(laboratory: Laboratory, pairs: Sequence[PairResult]) -> Reproduction:
    gains = [pair.throughput("ticktock") for pair in pairs]
    labels = [f"{pair.members[0].model} {pair.members[0].batch}" for pair in pairs]
    behind = [pair.throughput("neaptide") / pair.throughput("ticktock") for pair in pairs]
    worst, where = min(zip(behind, labels, strict=True))
    emptier = [pair for pair in pairs if pair.utilisations[0] < 0.6]
    fuller = [pair for pair in pairs if pair.utilisations[0] >= 0.6]
    low, high = (mean(pair.throughput("ticktock") for pair in some) if some else 1.0 for some in (emptier, fuller))
    return Reproduction(
        paper="Wavelet (MLSys 2021)",
        device=laboratory.device.name,
        setting=(
            f"Two replicas train for as long as {ROUNDS} iterations of each take in turns; throughput is relative to "
            "turns. Budget: both persistent bytes and one and a half times the ephemeral bytes.",
        ),
        tables=(_table(pairs),),
        claims=(
            _claim("average", 1.4, mean(gains)),
            _claim("best", 1.88, max(gains)),
        ),
        goals=(
            Goal(
                "neaptide at least as fast as tick-tock on every pair",
                f"at least {worst:.3f} times ({where})",
                worst >= 1 - NOISE,
            ),
            Goal("tick-tock never slower than turns", f"at least {format_times(min(gains))}", min(gains) >= 1 - NOISE),
            Goal(
                "more gain where utilisation is lower",
                f"{format_times(low)} below 60%, {format_times(high)} above",
                low > high,
            ),
        ),
        unknown=("The networks and batch sizes behind these two figures, and the utilisation of the GPUs.",),
        differs=(
            "Their replicas are two waves of one data-parallel job, which also share its gradients; ours are two jobs "
            "on one GPU. The average depends on how much of the device the chosen networks leave free.",
            "Here ticktock must keep the budget, like every other policy.",
        ),
        figures={
            "wavelet.png": partial(
                save_bars,
                Bars(
                    "Throughput (x temporal)",
                    labels,
                    {name: [pair.throughput(name) for pair in pairs] for name in POLICIES},
                    1.0,
                    f"Two replicas on {laboratory.device.name}",
                ),
            )
        },
    )


def _claim(which: str, published: float, ours: float) -> Claim:
    return Claim(
        says=f"tick-tock over one job at a time, {which}",
        published=format_times(published),
        source=Source.PUBLIC,
        ours=format_times(ours),
        agrees=ours >= published,
        other_setting="Two jobs on one GPU in virtual time; theirs are two waves of one job on several GPUs.",
    )


def _table(pairs: Sequence[PairResult]) -> Table:
    columns = (
        Column("network", "network", left=True),
        Column("batch", "batch"),
        Column("utilisation", "utilisation", percent),
        Column("budget", "budget_bytes", format_bytes),
        Column("of\npeaks", "budget_share", percent),
        *(Column(name, name, format_times) for name in POLICIES),
    )
    rows = [
        (
            pair.members[0].model,
            pair.members[0].batch,
            pair.utilisations[0],
            pair.budget_bytes,
            pair.budget_bytes / pair.peaks_bytes,
            *(pair.throughput(name) for name in POLICIES),
        )
        for pair in pairs
    ]
    return Table("replicas", "Two replicas on one device", columns, rows)
