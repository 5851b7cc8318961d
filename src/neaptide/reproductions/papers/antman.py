"""AntMan (OSDI'20): an opportunistic job beside a guaranteed one, which is to be as fast as alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import mean

import numpy as np

from neaptide.core.control.actions import SetLimit
from neaptide.core.control.controller import Decided
from neaptide.core.traces.profile import Profile
from neaptide.policies.antman import AntMan
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.formats import format_times
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import NOISE, ROUNDS, PairResult
from neaptide.reproductions.result import Column, Goal, Reproduction, Table, percent
from neaptide.reproductions.zico_pairs import LABELS, pairs_in_whole_memory
from neaptide.simulation.outcome import MemorySeries

DEVICE = "V100-16GB"
OTHER_SETTING = "One device in virtual time and pairs of ours; theirs is a cluster with a trace of its own."


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run Zico's eleven pairs: the first job of each is guaranteed, the second opportunistic."""
    pairs = pairs_in_whole_memory(laboratory, "antman", priorities=(1, 0))
    return _report(
        laboratory, pairs, [laboratory.profile(pair.members[0].model, pair.members[0].batch) for pair in pairs]
    )


def held_on_average(series: MemorySeries, end_ns: int) -> float:
    """The bytes held at a moment, on average over the run."""
    lasts = np.diff(np.append(series.at_ns, end_ns)).astype(np.float64)
    return float(series.held_bytes @ lasts) / end_ns


def held_alone(profile: Profile) -> float:
    """The bytes that a job holds at a moment, on average over an iteration alone."""
    return profile.persistent_bytes + float(np.average(profile.curve.bytes, weights=np.diff(profile.curve.edges_ns)))


def _report(laboratory: Laboratory, pairs: Sequence[PairResult], guaranteed: Sequence[Profile]) -> Reproduction:
    rows = []
    for label, pair, profile in zip(LABELS, pairs, guaranteed, strict=True):
        run = pair.runs[1]
        first, second = pair.progress["antman"][0], pair.of_alone("antman")[1]
        actions = [entry.action for entry in run.outcome.entries if isinstance(entry, Decided)]
        held = held_on_average(run.outcome.total, run.outcome.end_ns)
        rows.append(
            (
                label,
                pair.oversubscription,
                "yes" if any(isinstance(action, SetLimit) for action in actions) else "no",
                1 / first,
                second,
                held_alone(profile) / pair.budget_bytes,
                held / pair.budget_bytes,
                pair.utilisations[0],
                pair.use("antman"),
            )
        )
    *_, alone_held, held_share, alone_used, used_share = zip(*rows, strict=True)
    memory_gain = mean(held_share) / mean(alone_held) - 1
    compute_gain = mean(used_share) / mean(alone_used) - 1
    slowest, where = max((row[3], row[0]) for row in rows)
    least, who = min((row[4], row[0]) for row in rows)
    bound = AntMan().bound
    return Reproduction(
        paper="AntMan (OSDI 2020)",
        device=laboratory.device.name,
        setting=(
            f"Zico's eleven pairs train for as long as {ROUNDS} iterations of each take in turns, in all of the "
            "device's memory. The first job of a pair is guaranteed, the second opportunistic.",
        ),
        tables=(_table(rows),),
        claims=(
            _claim("memory in use, against the guaranteed jobs alone", "+42%", memory_gain, memory_gain >= 0.42),
            _claim("compute in use, against the guaranteed jobs alone", "+34%", compute_gain, compute_gain >= 0.34),
        ),
        goals=(
            Goal(
                f"no guaranteed job takes more than {bound} times as long as alone",
                f"at most {format_times(slowest)} ({where})",
                slowest <= bound + NOISE,
            ),
            Goal("every opportunistic job gets on", f"at least {least:.0%} of its speed alone ({who})", least > 0.01),
        ),
        unknown=("The cluster's trace, its mix of guaranteed and opportunistic jobs, and how use was measured.",),
        differs=(
            f"All heavy kernels of the other job wait while the guaranteed one takes more than {bound} times as long "
            "as alone, or none do. The paper's controller, which is not known to us, delays single kernels, and so may "
            "use gaps that ours does not.",
            "A guaranteed job always has an opportunistic one beside it here, and a cluster's has not.",
            "Overflow is paid as the share of the job's bytes that is in host memory, at the link's bandwidth.",
        ),
        figures={
            "antman.png": partial(
                save_bars,
                Bars(
                    "Speed (x alone)",
                    LABELS,
                    {"guaranteed": [1 / row[3] for row in rows], "opportunistic": [row[4] for row in rows]},
                    1.0,
                    f"Pairs on {laboratory.device.name}",
                ),
            )
        },
    )


def _claim(says: str, published: str, gain: float, agrees: bool) -> Claim:
    return Claim(
        says=says,
        published=published,
        source=Source.RECALLED,
        ours=f"{gain:+.0%}",
        agrees=agrees,
        other_setting=OTHER_SETTING,
    )


def _table(rows: Sequence[Sequence[object]]) -> Table:
    columns = (
        Column("pair", "pair", left=True),
        Column("peaks of\nmemory", "oversubscription", percent),
        Column("overflows", "overflows", left=True),
        Column("guaranteed,\ntime", "guaranteed", format_times),
        Column("other,\nspeed", "opportunistic", percent),
        Column("memory,\nalone", "memory_alone", percent),
        Column("memory,\nantman", "memory", percent),
        Column("compute,\nalone", "compute_alone", percent),
        Column("compute,\nantman", "compute", percent),
    )
    return Table("pairs", "A guaranteed job and an opportunistic one", columns, rows)
