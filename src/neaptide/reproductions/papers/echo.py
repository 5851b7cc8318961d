"""Echo (ISCA'20): how much less memory recurrent and attention networks need when cheap results are recomputed.

Published: a footprint 1.89 times smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes
from neaptide.planning.apply import summary_of
from neaptide.planning.plan import CannotFitError
from neaptide.planning.planners import echo
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Column, Goal, Reproduction, Table

DEVICE = "V100-16GB"
MODELS = {"gnmt": 64, "rhn": 128, "transformer": 32, "bert-base": 32}
PUBLISHED_RATIO = 1.89


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The memory of one network without Echo, and the lowest with it."""

    name: str
    plain_bytes: int
    echo_bytes: int
    reruns: int
    slowdown: float

    @property
    def ratio(self) -> float:
        return self.plain_bytes / self.echo_bytes


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Let Echo's rule recompute whatever lowers the footprint."""
    with progress("recomputing cheap results"):
        found = footprints({name: laboratory.trace(name, batch) for name, batch in MODELS.items()}, laboratory.device)
    best = max(found, key=lambda row: row.ratio)
    slowest = max(row.slowdown for row in found)
    return Reproduction(
        paper="Echo (ISCA 2020)",
        device=laboratory.device.name,
        setting=("The peak of an iteration without Echo, and the lowest peak that Echo's rule reaches.",),
        tables=(
            Table(
                "networks",
                "Footprint",
                (
                    Column("network", "network", left=True),
                    Column("without", "plain_bytes", format_bytes),
                    Column("with Echo", "echo_bytes", format_bytes),
                    Column("smaller", "ratio", format_times),
                    Column("re-runs", "reruns"),
                    Column("time", "slowdown", format_times),
                ),
                [(row.name, row.plain_bytes, row.echo_bytes, row.ratio, row.reruns, row.slowdown) for row in found],
            ),
        ),
        claims=(
            Claim(
                says="footprint without Echo over that with it, best",
                published=format_times(PUBLISHED_RATIO),
                source=Source.PUBLIC,
                ours=f"{format_times(best.ratio)} ({best.name})",
                agrees=best.ratio >= PUBLISHED_RATIO,
                other_setting="Estimated PyTorch programs whose LSTM layers and attention are single kernels.",
            ),
        ),
        goals=(Goal("recomputing cheap results costs at most 5% of time", format_times(slowest), slowest <= 1.05),),
        unknown=("Which network and sizes the published figure is of.",),
        differs=(
            "Echo removes maps between the small ops of an unrolled LSTM cell and of attention. PyTorch runs an LSTM "
            "layer and attention as one kernel each, which keep such maps inside or do not make them. The zoo's RHN "
            "is unrolled, but each of its states follows from the one before and none is saved, so a single result "
            "cannot be had without running all steps again.",
        ),
    )


def footprints(traces: Mapping[str, Trace], device: DeviceSpec) -> list[Footprint]:
    """The lowest peak that Echo reaches for each trace."""
    return [_footprint(name, trace, device) for name, trace in traces.items()]


def _footprint(name: str, trace: Trace, device: DeviceSpec) -> Footprint:
    try:
        plan = echo.plan(trace, 0, device)
    except CannotFitError as error:  # no plan reaches zero: the error says how low Echo comes
        plan = echo.plan(trace, error.lowest_bytes, device)
    done = summary_of(trace, plan, device)
    return Footprint(
        name=name,
        plain_bytes=trace.peak_bytes,
        echo_bytes=done.peak_bytes,
        reruns=done.reruns,
        slowdown=done.seconds / trace.seconds,
    )
