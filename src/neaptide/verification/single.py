"""One program on the device, from its start to its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep

from neaptide.live.runs.launching import JobCommand
from neaptide.live.runs.supervisor import JobResult, Supervisor

_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 300.0


def run_to_its_end(job: JobCommand, environment: Mapping[str, str], folder: Path) -> JobResult:
    """Run a program, and kill it if it takes too long; how it ended."""
    supervisor, until = Supervisor(folder), monotonic() + _PATIENCE_SECONDS
    supervisor.start([job], lambda _: environment)
    try:
        while supervisor.running and monotonic() < until:
            supervisor.poll()
            sleep(_POLL_SECONDS)
    finally:
        supervisor.kill()
    return supervisor.results[0]
