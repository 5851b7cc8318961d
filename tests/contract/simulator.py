"""The contract's scenes in the simulator."""

from __future__ import annotations

from contract.world import LEASE, Facts, Scene, Tide, Watched
from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import find_device
from neaptide.simulation import MemorySeries, Submission, simulate

_LONGEST_NS = 60_000_000_000


class Simulator:
    """Virtual time."""

    name = "simulator"

    def run(self, scene: Scene) -> Facts:
        policy = Watched(scene)
        outcome = simulate(
            [_submission(tide) for tide in scene.tides],
            find_device("soft"),
            scene.budget * LEASE,
            policy,
            budget_changes=[(round(seconds * 1e9), round(budget * LEASE)) for seconds, budget in scene.budget_changes],
            until_ns=_LONGEST_NS,
        )
        return Facts(
            scene=scene,
            entries=outcome.entries,
            views=policy.views,
            held={name: _held(series) for name, series in outcome.memory.items()},
            most_held=outcome.peak_bytes / LEASE,
            held_at_the_end=float(outcome.total.held_bytes[-1]) / LEASE if outcome.total.held_bytes.size else 0,
        )


def _held(series: MemorySeries) -> list[tuple[int, float]]:
    return [
        (at_ns, held / LEASE) for at_ns, held in zip(series.at_ns.tolist(), series.held_bytes.tolist(), strict=True)
    ]


def _submission(tide: Tide) -> Submission:
    serves = tide.kind is JobKind.INFERENCE
    job = Job(
        name=tide.name,
        trace=tide.trace,
        kind=tide.kind,
        iterations=None if serves else tide.iterations,
        priority=tide.priority,
        deadline_seconds=tide.deadline_seconds,
        latency_critical=tide.latency_critical,
    )
    return Submission(job, requests_ns=tuple(round(seconds * 1e9) for seconds in tide.requests))
