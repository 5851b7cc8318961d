"""The wall time of jobs from the start of their programs to the end of the last one, with and without neaptide."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from benchmarks._live import Load

from neaptide.devices import default_kind
from neaptide.devices.interface import DeviceSettings
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_file
from neaptide.live.runs.launching import JobCommand
from neaptide.live.runs.run_jobs import RunRecord, run_jobs
from neaptide.live.runs.without_neaptide import Without, device_without_daemon, run_without

_ROOT = Path(__file__).parent.parent  # the folder of the package `benchmarks`


def one_after_the_other(loads: Sequence[Load], iterations: Sequence[int], budget_bytes: int) -> float:
    """Seconds that the jobs take one after the other, without neaptide, each with the whole budget."""
    with tempfile.TemporaryDirectory(prefix="npt-") as name, device_without_daemon(budget_bytes) as (paths, board):
        jobs, device, folder = _jobs(loads, iterations, name), _device(loads), Path(name)
        how = Without.ONE_AFTER_THE_OTHER
        return _seconds(run_without(how, jobs, device, paths, board, folder, _ignore, _ignore))


def under_neaptide(loads: Sequence[Load], iterations: Sequence[int], budget_bytes: int) -> float:
    """Seconds that the same jobs take when they share the device; the start of the daemon and measuring count."""
    asked = monotonic()
    wanted = DaemonRequest(policy="neaptide", budget_bytes=budget_bytes, private=True)
    with tempfile.TemporaryDirectory(prefix="npt-") as name, daemon_for_file(wanted) as paths:
        jobs, device, folder = _jobs(loads, iterations, name), _device(loads), Path(name)
        return _seconds(run_jobs(jobs, device, paths, folder, _ignore, _ignore, asked))


def _jobs(loads: Sequence[Load], iterations: Sequence[int], folder: str) -> list[JobCommand]:
    jobs = []
    for index, (load, count) in enumerate(zip(loads, iterations, strict=True)):
        words = (load.network, str(load.batch), "yes" if load.varies else "no", folder, f"job{index}", str(count))
        command = (sys.executable, "-m", "benchmarks._live_job", *words)
        jobs.append(JobCommand(name=f"job{index}", command=command, directory=_ROOT))
    return jobs


def _device(loads: Sequence[Load]) -> DeviceSettings:
    (sms,) = {load.sms for load in loads}
    return default_kind().settings_type(sms=sms, cuda_as_soft=False)


def _seconds(record: RunRecord) -> float:
    for result in record.results:
        if result.code:
            raise RuntimeError(f"{result.name} ended with {result.how}: {' '.join(result.last_lines)}")
    return record.seconds


def _ignore(*_: object) -> None:
    pass
