"""A job's process: its command, and the environment that makes it attach to the daemon by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from neaptide.devices import chosen_device, default_kind
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.paths import RuntimePaths

_BOOTSTRAP = Path(__file__).parents[1] / "job" / "bootstrap"
_PACKAGES = Path(__file__).parents[3]  # the folder that neaptide was imported from


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCommand:
    """One job as the user gave it."""

    name: str
    command: tuple[str, ...]
    kind: Literal["training", "inference"] = "training"
    directory: Path | None = None  # None: the current directory
    environment: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    deadline_seconds: float | None = None
    iterations: int | None = None


def environment_of(
    job: JobCommand, device: DeviceSettings, paths: RuntimePaths, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The job's environment: inherited variables, its own, and those that `live.job.attach` and the device read."""
    environment = {**inherited, **job.environment}
    search = [str(_BOOTSTRAP), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    if str(_PACKAGES) not in search:  # so that another Python finds neaptide too
        search.append(str(_PACKAGES))
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        "NEAPTIDE_SOCKET": str(paths.socket),
        "NEAPTIDE_DEVICE": str(chosen_device()),
        "NEAPTIDE_JOB": job.name,
        "NEAPTIDE_KIND": job.kind,
        "NEAPTIDE_PRIORITY": str(job.priority),
        **default_kind().environment(device, paths.board),
    }
    optional = {
        "NEAPTIDE_ITERATIONS": job.iterations,
        "NEAPTIDE_DEADLINE": job.deadline_seconds,
    }
    environment |= {name: str(value) for name, value in optional.items() if value is not None}
    return environment
