"""The runtime folder is emptied under a daemon, and a job becomes another program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from daemons import MIB, DaemonProcess, goes_on, until
from neaptide.live.protocol.asking import NoDaemonError

EXECUTES = """
import os, sys
from pathlib import Path
from fake_job import FakeJob, FakeJobSpec

FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), FakeJobSpec(name=sys.argv[3], iterations=5)).start()._thread.join(20)
held = FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), FakeJobSpec(name=sys.argv[3], pause_at=2)).start()
while held.done < 2: pass
print(held.done, flush=True)
if sys.argv[3] == "first":
    os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:3], "second"])
held.go_on.set()
held.join()
print("done", flush=True)
"""


def test_jobs_newcomers_and_commands_go_on_when_the_folder_is_emptied(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    try:
        job = daemon.run(name="before", iterations=100_000)
        until(lambda: job.done > 5, "it to run")
        for each in daemon.paths.folder.iterdir():
            if each.is_file() or each.is_socket():
                each.unlink()
        second = subprocess.run(
            [sys.executable, "-m", "neaptide.cli", "up", "--foreground", "--budget", "300MiB"],
            env={**os.environ, "NEAPTIDE_RUNTIME": str(daemon.paths.folder)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode != 0
        assert "runs for this device already" in second.stderr

        def answers() -> bool:
            try:
                return daemon.status().pid == daemon.process.pid and daemon.paths.board.exists()
            except NoDaemonError:
                return False

        until(answers, "the daemon to be back at its socket")
        goes_on(job)
        late = daemon.run(name="late", iterations=5)
        late.join()
        assert late.done == 5
        status = daemon.status()
        assert status.high_water_bytes <= status.budget_bytes == 100 * MIB
    finally:
        said = daemon.stop()
    assert "put its own back" in said
    assert "fault" not in said


def test_a_job_that_becomes_another_program_leaves_its_slot_and_is_shared_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(EXECUTES)
    daemon = DaemonProcess(tmp_path / "run")
    try:
        process = subprocess.run(
            [sys.executable, str(program), str(daemon.paths.socket), str(daemon.paths.board), "first"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert process.stdout.split() == ["2", "2", "done"], process.stderr
        until(lambda: daemon.status().used_bytes == 0, "all memory to be back")
        assert daemon.status().high_water_bytes <= 100 * MIB
    finally:
        assert "fault" not in daemon.stop()
