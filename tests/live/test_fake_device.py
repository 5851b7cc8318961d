"""A copy of the fake device in a folder outside the package, as in docs/writing-a-device.md."""

from __future__ import annotations

import shutil
from pathlib import Path

import neaptide.devices.fake
from daemons import MIB, DaemonThread
from fake_job import FakeJob, FakeJobSpec
from neaptide.devices import find_kind


def test_a_daemon_runs_jobs_on_a_device_from_a_folder_outside_the_package(tmp_path: Path) -> None:
    shutil.copytree(Path(neaptide.devices.fake.__file__).parent, tmp_path / "copied")
    kind = find_kind(str(tmp_path / "copied" / "kind.py"))
    daemon = DaemonThread(tmp_path / "run", kind=kind)
    try:
        specs = [FakeJobSpec(name=name, iterations=5) for name in "ab"]
        jobs = [FakeJob(daemon.paths.socket, daemon.paths.board, spec, kind=kind).start() for spec in specs]
        for job in jobs:
            assert type(job.agent).__module__.startswith("neaptide_device_copied_")
            job.join()
        assert [job.done for job in jobs] == [5, 5]
        assert daemon.board.snapshot().high_water_bytes <= 100 * MIB
        assert b'"device":"fake"' in daemon.paths.events.read_bytes().splitlines()[0]
    finally:
        daemon.stop()
