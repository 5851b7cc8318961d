"""Gandiva (OSDI'18): packing two jobs on one device where measured iterations say that it pays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import mean

from neaptide.core.control.actions import Admit, Suspend
from neaptide.core.control.controller import Decided
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.formats import format_times
from neaptide.reporting.logs.comparison import SimulatedRun
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import NOISE, ROUNDS, PairResult
from neaptide.reproductions.result import Column, Goal, Reproduction, Table, percent
from neaptide.reproductions.zico_pairs import LABELS, pairs_in_whole_memory

DEVICE = "V100-16GB"
OTHER_SETTING = "One device in virtual time and pairs of ours; theirs is a cluster with a trace of its own."
TOGETHER, APART, NEVER = "packed", "taken apart", "never packed"


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run Zico's eleven pairs, which differ in how much of the device they use, in all of the device's memory."""
    return _report(laboratory, pairs_in_whole_memory(laboratory, "gandiva"))


def fate_of(run: SimulatedRun) -> str:
    """What became of the second job of a run: a guest is admitted to lane 1, and suspended if it hurts."""
    actions = [entry.action for entry in run.outcome.entries if isinstance(entry, Decided)]
    if not any(isinstance(action, Admit) and action.lane == 1 for action in actions):
        return NEVER
    return APART if any(isinstance(action, Suspend) for action in actions) else TOGETHER


def gain(pair: PairResult) -> float:
    """What both jobs do under Gandiva over what they do in turns."""
    return sum(pair.of_alone("gandiva")) / sum(pair.of_alone("temporal"))


def _report(laboratory: Laboratory, pairs: Sequence[PairResult]) -> Reproduction:
    fates = [fate_of(pair.runs[1]) for pair in pairs]
    used = mean(pair.use("gandiva") for pair in pairs) / mean(pair.use("temporal") for pair in pairs) - 1
    kept = [gain(pair) for pair, fate in zip(pairs, fates, strict=True) if fate is TOGETHER]
    worst, where = min((gain(pair), label) for pair, label in zip(pairs, LABELS, strict=True))
    return Reproduction(
        paper="Gandiva (OSDI 2018)",
        device=laboratory.device.name,
        setting=(
            f"Zico's eleven pairs train for as long as {ROUNDS} iterations of each take in turns, in all of the "
            "device's memory. Throughput is relative to turns.",
        ),
        tables=(_table(pairs, fates),),
        claims=(
            Claim(
                says="packing: utilisation of the devices",
                published="+26%",
                source=Source.RECALLED,
                ours=f"{used:+.0%}",
                agrees=used >= 0.26,
                other_setting=OTHER_SETTING,
            ),
            Claim(
                says="hyper-parameter tuning is faster by an order of magnitude",
                published="10x",
                source=Source.RECALLED,
                ours="not run",
                agrees=None,
                other_setting="Most of it comes from ending bad trials early; virtual time has no accuracies.",
            ),
        ),
        goals=(
            Goal("no pair is slower than in turns", f"at least {worst:.3f} times ({where})", worst >= 1 - NOISE),
            Goal(
                "every pair that stays together gains",
                f"{len(kept)} of {len(pairs)} stay, at least {format_times(min(kept, default=1.0))}",
                min(kept, default=0.0) > 1,
            ),
        ),
        unknown=("The cluster's trace, and how much of the gain is from packing and how much from migration.",),
        differs=(
            "Which job is packed with which is decided by peaks and utilisation here, and no more than two are packed.",
            "Migration needs several devices. A pair is judged by the last iterations of both, and one that was taken "
            "apart is not packed again.",
        ),
        figures={
            "gandiva.png": partial(
                save_bars,
                Bars(
                    "Throughput (x turns)",
                    LABELS,
                    {"gandiva": [gain(pair) for pair in pairs]},
                    1.0,
                    f"Pairs on {laboratory.device.name}",
                ),
            )
        },
    )


def _table(pairs: Sequence[PairResult], fates: Sequence[str]) -> Table:
    columns = (
        Column("pair", "pair", left=True),
        Column("peaks of\nmemory", "oversubscription", percent),
        Column("second job", "fate", left=True),
        Column("throughput", "throughput", format_times),
        Column("use of device,\nin turns", "use_in_turns", percent),
        Column("use of device,\ngandiva", "use", percent),
    )
    rows = [
        (
            label,
            pair.oversubscription,
            fate,
            gain(pair),
            pair.use("temporal"),
            pair.use("gandiva"),
        )
        for label, pair, fate in zip(LABELS, pairs, fates, strict=True)
    ]
    return Table("pairs", "Pairs on one device", columns, rows)
