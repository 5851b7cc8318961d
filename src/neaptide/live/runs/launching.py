"""A job's process: its command, and the environment that makes it attach to the daemon by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from neaptide.core.control.job import JobKind
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.protocol.paths import RuntimePaths


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
    deadline_quantile: float = DEFAULT_QUANTILE
    latency_critical: bool = False
    iterations: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        self.settings  # noqa: B018 - raises ValueError for what a job cannot have

    @property
    def settings(self) -> JobSettings:
        """What the job tells the daemon about itself."""
        return JobSettings(
            name=self.name,
            kind=JobKind(self.kind),
            iterations=self.iterations,
            priority=self.priority,
            deadline_seconds=self.deadline_seconds,
            deadline_quantile=self.deadline_quantile,
            latency_critical=self.latency_critical,
            memory_bytes=self.memory_bytes,
        )


def environment_of(
    job: JobCommand, device: DeviceSettings, paths: RuntimePaths, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The job's environment: inherited variables, its own, and those that `live.job` and the device read."""
    own = job.settings.environment(paths.socket, chosen_device(), {**inherited, **job.environment})
    best_effort = job.deadline_seconds is None
    return {**own, **default_kind().environment(device, paths.board, best_effort=best_effort)}


def environment_without_daemon(job: JobCommand, device: DeviceSettings, board: Path) -> dict[str, str]:
    """The environment of a program that has the device on this board, and of which no daemon knows."""
    own = job.settings.environment(None, chosen_device(), {**os.environ, **job.environment})
    return {**own, **default_kind().environment(device, board)}
