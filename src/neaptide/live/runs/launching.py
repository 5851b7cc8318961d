"""A job's process: what it is to run, and the environment in which the client attaches to it by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from neaptide.live.protocol.paths import RuntimePaths

_BOOTSTRAP = Path(__file__).parents[1] / "job" / "bootstrap"
_PACKAGES = Path(__file__).parents[3]  # where neaptide itself was found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCommand:
    """One job as the user gave it."""

    name: str
    command: tuple[str, ...]
    kind: Literal["training", "inference"] = "training"
    directory: Path | None = None  # None: where neaptide was called
    environment: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    deadline_seconds: float | None = None
    iterations: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """What jobs find of the software GPU; None leaves it as it is."""

    sms: int | None = None  # most SMs that a kernel of one job uses
    wait_seconds: float | None = None  # for memory that other jobs hold, before it is an out-of-memory error
    cuda_as_soft: bool = True  # where there is no GPU, `cuda` means the software GPU


def environment_of(
    job: JobCommand, device: DeviceSettings, paths: RuntimePaths, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The job's environment: what was inherited, its own variables, and what `live.attach` reads."""
    environment = {**inherited, **job.environment}
    search = [str(_BOOTSTRAP), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    if str(_PACKAGES) not in search:  # a Python that is not the one neaptide was installed for finds it too
        search.append(str(_PACKAGES))
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        "NEAPTIDE_SOCKET": str(paths.socket),
        "NEAPTIDE_SOFT_BOARD": str(paths.board),
        "NEAPTIDE_JOB": job.name,
        "NEAPTIDE_KIND": job.kind,
        "NEAPTIDE_PRIORITY": str(job.priority),
        "NEAPTIDE_CUDA_AS_SOFT": "1" if device.cuda_as_soft else "0",
    }
    optional = {
        "NEAPTIDE_ITERATIONS": job.iterations,
        "NEAPTIDE_DEADLINE": job.deadline_seconds,
        "NEAPTIDE_SOFT_SMS": device.sms,
        "NEAPTIDE_SOFT_WAIT": device.wait_seconds,
    }
    environment |= {name: str(value) for name, value in optional.items() if value is not None}
    return environment
