"""What jobs of the contract share on every device: how they are measured, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contract.world import LEASE, Tide
from neaptide.core.control.job import JobKind
from neaptide.core.traces.leases import LeaseOverhead
from neaptide.devices import DeviceAgent
from neaptide.live.job.known_profiles import KnownProfile
from neaptide.live.job.measurer import Measured
from neaptide.live.protocol.job_settings import JobSettings

MEASURED = 2  # iterations


class ScriptedMeasurer:
    """A Measurer that knows the trace from the beginning, and gives it after the first iterations as others do."""

    def __init__(self, tide: Tide, agent: DeviceAgent, opening_kernels: int = 0) -> None:
        self._trace = tide.trace
        self._agent = agent
        self._gaps_at_rest: list[int] = []
        self._op_of_kernel = np.array([0] * opening_kernels + list(range(len(tide.steps))))
        self._begun = 0

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:  # noqa: ARG002
        memory = self._agent.memory()
        self._gaps_at_rest.append(memory.held_bytes - memory.needed_bytes)
        if self._begun == MEASURED:
            overhead = LeaseOverhead(
                peak_bytes=max(memory.held_peak_bytes - memory.needed_peak_bytes, 0),
                most_bytes=memory.spare_peak_bytes,
                at_rest_bytes=max(min(self._gaps_at_rest), 0),
            )
            return Measured(self._trace, MEASURED, self._op_of_kernel, overhead)
        self._begun += 1
        return None

    def end_forward(self) -> None: ...

    def change(self) -> None: ...


def settings_of(tide: Tide) -> JobSettings:
    serves = tide.kind is JobKind.INFERENCE
    told = tide.iterations + unarmed(tide) if tide.says_iterations and not serves else None
    return JobSettings(
        name=tide.name,
        kind=tide.kind,
        iterations=told,
        priority=tide.priority,
        deadline_seconds=tide.deadline_seconds,
        latency_critical=tide.latency_critical,
        memory_bytes=None if tide.memory is None else round(tide.memory * LEASE),
    )


def unarmed(tide: Tide) -> int:
    """How many iterations it runs before those of its description: they are measured, unless a profile is known."""
    return MEASURED if tide.known is None else 0


def known_of(tide: Tide) -> KnownProfile | None:
    if tide.known is None:
        return None
    return KnownProfile(tide.known.trace, LeaseOverhead(), tide.kind is JobKind.INFERENCE)
