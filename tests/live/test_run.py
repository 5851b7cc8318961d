"""`neaptide run` as a newcomer uses it, with jobs that are quick because they do not use the device.

A run of such jobs shares nothing, and its exit code says so.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hangs import HANGS_SECONDS
from neaptide.live.protocol.lock import running_pid
from neaptide.live.runs.attendance import NOT_SHARED, WARNING
from neaptide.live.runs.starting import start_daemon
from neaptide.reporting.logs.run_folder import EVENTS, REPORT, read_run
from neaptide_command import Command, wait_until


def test_jobs_that_end_well_leave_their_output_a_log_and_a_report(neaptide: Command) -> None:
    neaptide.write(("a", "print(1)"), ("b", "print(2)"), top="budget = '64MiB'\npolicy = 'zico'")
    code, out, err = neaptide("run", "jobs.toml")
    folder = neaptide.folder / "neaptide-runs" / "jobs-1"
    assert (code, err) == (NOT_SHARED, f"neaptide: {WARNING}\n")
    assert "jobs: a, b; output in neaptide-runs/jobs-1" in out
    assert re.search(r"zico: [\d.]+ s; no job was measured; at most 0 B of 64.0 MiB held", out)
    assert "report written to neaptide-runs/jobs-1/report.html" in out
    assert [(folder / f"{name}.log").read_text() for name in "ab"] == ["1\n", "2\n"]
    assert all((folder / name).is_file() for name in (EVENTS, REPORT))
    assert read_run(folder).logged.header.budget_bytes == 64 << 20
    assert neaptide("report", folder)[0] == 0


def test_a_full_disk_at_the_end_of_a_run_does_not_change_its_exit_code(neaptide: Command) -> None:
    full = f"import os\nfor name in ({EVENTS!r}, {REPORT!r}): os.symlink('/dev/full', f'kept/{{name}}')"
    neaptide.write(("a", full))
    code, _, err = neaptide("run", "jobs.toml", "-o", "kept")
    assert code == NOT_SHARED
    assert err.splitlines() == [
        "neaptide: the run could not be saved completely in kept: No space left on device",
        f"neaptide: no report was written to kept/{REPORT}: No space left on device",
        f"neaptide: {WARNING}",
    ]


def test_the_last_lines_of_a_failed_job_are_shown_and_the_other_jobs_go_on(neaptide: Command) -> None:
    neaptide.write(
        ("bad", "print(1, flush=True); raise SystemExit('no data')"), ("good", "import time; time.sleep(1); print(2)")
    )
    code, out, _ = neaptide("run", "jobs.toml", "-o", "kept")
    assert code == 1
    assert "bad failed after" in out
    assert "exit code 1; bad.log ends with\n  1\n  no data\n" in out
    assert (neaptide.folder / "kept" / "good.log").read_text() == "2\n"
    assert "exit code 1: no data" in (neaptide.folder / "kept" / REPORT).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_jobs_and_the_daemon(neaptide: Command, number: signal.Signals) -> None:
    program = (
        "import os, time\nprint(os.getpid(), os.environ['NEAPTIDE_SOCKET'], flush=True)\n"
        "try: time.sleep(99)\nexcept KeyboardInterrupt: print('saved')"
    )
    neaptide.write(("a", program), ("b", program))
    process = neaptide.begin("run", "jobs.toml", "-o", "kept")
    logs = [neaptide.folder / "kept" / f"{name}.log" for name in "ab"]
    wait_until(lambda: all(log.is_file() and log.read_text().count("\n") for log in logs))
    process.send_signal(number)
    out, _ = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130
    assert "a was interrupted after" in out
    for log in logs:
        pid, socket, saved = log.read_text().split()
        assert saved == "saved"
        assert not Path(f"/proc/{pid}").exists()
        assert not Path(socket).parent.exists()


def test_a_command_has_the_terminal_to_itself_and_its_own_exit_code(neaptide: Command) -> None:
    program = "import os, sys; print(os.environ['NEAPTIDE_JOB'], sys.argv[1:]); sys.exit(7)"
    code, out, err = neaptide("run", "--name", "first", "--", "python", "-c", program, "--lr", "0.1")
    assert (code, out, err) == (7, "first ['--lr', '0.1']\n", "")
    assert running_pid(neaptide.paths) is None  # it was started for the command


def test_a_command_runs_though_stdin_stdout_and_stderr_are_closed(neaptide: Command) -> None:
    program = "import os; open('out', 'w').write(os.environ['NEAPTIDE_SOCKET'])"
    words = [sys.executable, "-m", "neaptide.cli", "run", "--", sys.executable, "-c", f"{program}; os._exit(7)"]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words]
    environment = {**os.environ, "NEAPTIDE_RUNTIME": str(neaptide.paths.folder)}
    done = subprocess.run(closed, cwd=neaptide.folder, env=environment, timeout=HANGS_SECONDS)
    assert (done.returncode, (neaptide.folder / "out").read_text()) == (7, str(neaptide.paths.socket))
    assert running_pid(neaptide.paths) is None
    said = (neaptide.paths.folder / "daemon.log").read_text().splitlines()
    assert all(" neaptide: " in line for line in said), said  # the daemon's own lines, and no others


def test_a_command_joins_the_daemon_that_runs_and_leaves_it_there(neaptide: Command) -> None:
    start_daemon(neaptide.paths, "temporal", 64 << 20)
    program = "import os; print(os.environ['NEAPTIDE_SOCKET'])"
    assert neaptide("run", "python", "-c", program)[:2] == (NOT_SHARED, f"{neaptide.paths.socket}\n")
    assert running_pid(neaptide.paths) is not None
    code, _, err = neaptide("run", "--policy", "zico", "python", "-c", program)
    assert code == 2
    assert err == (
        "neaptide: a daemon runs already with policy temporal and a budget of 64.0 MiB; "
        "end it with neaptide down, or add --private to leave it alone\n"
    )
    neaptide.write(("a", program), top="budget = '64MiB'")
    assert neaptide("run", "jobs.toml", "-o", "joined")[0] == NOT_SHARED
    assert (neaptide.folder / "joined" / "a.log").read_text() == f"{neaptide.paths.socket}\n"
    assert neaptide("run", "jobs.toml", "-o", "apart", "--private", "--policy", "zico")[0] == NOT_SHARED
    assert (neaptide.folder / "apart" / "a.log").read_text() != f"{neaptide.paths.socket}\n"


USES = "import torch; torch.ones(3, device='cuda').sum().item()"


@pytest.fixture
def built() -> None:
    """The device is built before a command has to answer in time: to build it takes minutes on a busy machine."""
    import neaptide.devices.soft  # noqa: F401


@pytest.mark.usefixtures("built")
def test_a_command_that_uses_the_device_keeps_its_exit_code_and_one_that_does_not_has_its_own(
    neaptide: Command,
) -> None:
    start_daemon(neaptide.paths, "neaptide", 256 << 20)
    code, _, err = neaptide("run", "--name", "a", "--", "python", "-c", USES)
    assert (code, WARNING in err) == (0, False)
    code, _, err = neaptide("run", "--name", "a", "--", "python", "-c", "pass")  # whoever was called `a` before
    assert (code, err) == (NOT_SHARED, f"neaptide: {WARNING}\n")


@pytest.mark.usefixtures("built")
def test_a_run_is_shared_if_one_of_its_jobs_is(neaptide: Command) -> None:
    neaptide.write(("a", USES), ("b", "pass"), top="budget = '256MiB'")
    code, _, err = neaptide("run", "jobs.toml")
    assert (code, err) == (0, "")
