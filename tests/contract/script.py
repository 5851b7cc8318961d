"""What jobs of the contract share on every device: how they are measured, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contract.world import Tide
from neaptide.core.control.job import JobKind
from neaptide.live.job.client import JobSettings
from neaptide.live.job.measurer import Measured

MEASURED = 2  # iterations


class ScriptedMeasurer:
    """A Measurer that knows the trace from the beginning, and gives it after the first iterations as others do."""

    def __init__(self, tide: Tide, opening_kernels: int = 0) -> None:
        self._trace = tide.trace
        self._op_of_kernel = np.array([0] * opening_kernels + list(range(len(tide.steps))))
        self._begun = 0

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:  # noqa: ARG002
        if self._begun == MEASURED:
            return Measured(self._trace, MEASURED, self._op_of_kernel)
        self._begun += 1
        return None

    def change(self) -> None: ...

    def stop(self) -> None: ...


def settings_of(tide: Tide) -> JobSettings:
    serves = tide.kind is JobKind.INFERENCE
    told = tide.iterations + MEASURED if tide.says_iterations and not serves else None
    return JobSettings(name=tide.name, kind=tide.kind, iterations=told, deadline_seconds=tide.deadline_seconds)
