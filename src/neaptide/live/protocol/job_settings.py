"""What a job tells the daemon about itself, and the environment variables that carry it to a process.

NEAPTIDE_SOCKET is the socket of the daemon, beside which is the board; without it a process is no job. If it is empty,
the process only finds the device, and there is no daemon. NEAPTIDE_DEVICE is the device and NEAPTIDE_JOB the job's
name. NEAPTIDE_KIND (training or inference), _ITERATIONS, _PRIORITY, _DEADLINE (seconds for one batch), _QUANTILE
(of the deadlines to keep), _LATENCY_CRITICAL (1: as if alone) and _MEMORY (bytes) stand for the arguments of
`neaptide.attach`. A device may read variables of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.control.job import JobKind
from neaptide.core.control.job_limits import (
    check_deadline,
    check_iterations,
    check_memory,
    check_priority,
    check_quantile,
    check_serving,
    checked_name,
)
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.devices.interface import DeviceName

BOOTSTRAP = Path(__file__).parents[1] / "job" / "bootstrap"
_PACKAGES = Path(__file__).parents[3]  # the folder that neaptide was imported from


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What a job tells the daemon about itself."""

    name: str
    kind: JobKind = JobKind.TRAINING
    iterations: int | None = None
    priority: int = 0
    deadline_seconds: float | None = None
    deadline_quantile: float = DEFAULT_QUANTILE
    latency_critical: bool = False
    memory_bytes: int | None = None  # that it is expected to hold, at most

    def __post_init__(self) -> None:
        checked_name(self.name)
        check_iterations(self.iterations)
        check_priority(self.priority)
        check_deadline(self.deadline_seconds)
        check_quantile(self.deadline_quantile)
        check_serving(
            self.kind is JobKind.INFERENCE,
            self.deadline_seconds is not None,
            self.deadline_quantile != DEFAULT_QUANTILE,
            self.latency_critical,
        )
        check_memory(self.memory_bytes)

    def environment(self, socket: Path | None, device: DeviceName, inherited: Mapping[str, str]) -> dict[str, str]:
        """The inherited variables, and those that make a Python program a job; without a socket, a program alone."""
        search = [str(BOOTSTRAP), *inherited.get("PYTHONPATH", "").split(os.pathsep)]
        if str(_PACKAGES) not in search:  # so that another Python finds neaptide too
            search.append(str(_PACKAGES))
        own = {
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, search))),
            "NEAPTIDE_SOCKET": "" if socket is None else str(socket),
            "NEAPTIDE_DEVICE": str(device),
            "NEAPTIDE_JOB": self.name,
            "NEAPTIDE_KIND": self.kind.value,
            "NEAPTIDE_PRIORITY": str(self.priority),
        }
        optional = {
            "NEAPTIDE_ITERATIONS": self.iterations,
            "NEAPTIDE_DEADLINE": self.deadline_seconds,
            "NEAPTIDE_QUANTILE": self.deadline_quantile if self.deadline_quantile != DEFAULT_QUANTILE else None,
            "NEAPTIDE_LATENCY_CRITICAL": "1" if self.latency_critical else None,
            "NEAPTIDE_MEMORY": self.memory_bytes,
        }
        kept = {name: value for name, value in inherited.items() if name not in optional}
        return {**kept, **own, **{name: str(value) for name, value in optional.items() if value is not None}}

    @classmethod
    def from_environment(cls, variables: Mapping[str, str], name: str) -> JobSettings:
        """What the variables say; ValueError when they cannot be read. `name`: for a job that they do not name."""
        iterations, deadline = variables.get("NEAPTIDE_ITERATIONS"), variables.get("NEAPTIDE_DEADLINE")
        memory = variables.get("NEAPTIDE_MEMORY")
        return cls(
            name=variables.get("NEAPTIDE_JOB") or name,
            kind=JobKind(variables.get("NEAPTIDE_KIND") or "training"),
            iterations=int(float(iterations)) if iterations else None,
            priority=int(variables.get("NEAPTIDE_PRIORITY") or 0),
            deadline_seconds=float(deadline) if deadline else None,
            deadline_quantile=float(variables.get("NEAPTIDE_QUANTILE") or DEFAULT_QUANTILE),
            latency_critical=variables.get("NEAPTIDE_LATENCY_CRITICAL") == "1",
            memory_bytes=int(memory) if memory else None,
        )
