"""However a run ends, it leaves no daemon, no job and no folder; and runs share a daemon without getting in its way."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns import interrupted_runs as campaign
from hangs import HANGS_SECONDS
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.lock import DaemonLock, running_pid
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths, prepare
from neaptide.live.runs.attendance import NOT_SHARED, WARNING
from neaptide.live.runs.starting import start_daemon
from neaptide_command import Command, wait_until

NAPS = "time.sleep(300)"
WAITS = "import os, time; print(os.getpid(), os.environ['NEAPTIDE_SOCKET'], flush=True); time.sleep(300)"


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


@pytest.fixture(autouse=True)
def hangups_end_processes() -> Iterator[None]:
    """Whoever runs the tests may ignore SIGHUP, as nohup does, and processes inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def printed(path: Path) -> tuple[int, Path]:
    """The pid and the runtime folder that a job that waits has printed."""
    wait_until(lambda: path.is_file() and path.read_text().endswith("\n"))
    pid, socket = path.read_text().split()
    return int(pid), Path(socket).parent


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_run_of_a_file_that_is_killed_leaves_no_job_no_daemon_and_no_folder(
    neaptide: Command, number: signal.Signals
) -> None:
    neaptide.write(("a", WAITS))
    shell = json.dumps(shlex.join([sys.executable, "-c", WAITS]) + "; true")  # so written, it is TOML, too
    with (neaptide.folder / "jobs.toml").open("a") as file:
        file.write(f"[[job]]\nname = 'b'\ncommand = ['sh', '-c', {shell}]\n")
    process = neaptide.begin("run", "jobs.toml", "-o", "kept")
    jobs = [printed(neaptide.folder / "kept" / f"{name}.log") for name in "ab"]
    process.send_signal(number)
    process.communicate(timeout=HANGS_SECONDS)
    for pid, folder in jobs:
        wait_until(lambda pid=pid: gone(pid))  # type: ignore[misc]
        wait_until(lambda folder=folder: not folder.exists())  # type: ignore[misc]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_run_of_a_command_ends_the_command_and_its_daemon(
    neaptide: Command, number: signal.Signals
) -> None:
    process = neaptide.begin("run", "--", "sh", "-c", f"{shlex.join([sys.executable, '-c', WAITS])} > out; exit 1")
    pid, _ = printed(neaptide.folder / "out")
    process.send_signal(number)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode
    wait_until(lambda: gone(pid))
    wait_until(lambda: running_pid(neaptide.paths) is None)


COUNTS = """
import signal, sys, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print("ready", flush=True)
while not got: time.sleep(0.01)
sys.stdin.readline()
print("interrupts:", len(got), flush=True)
"""


def test_ctrl_c_in_a_terminal_reaches_a_command_once(neaptide: Command) -> None:
    words = [sys.executable, "-m", "neaptide.cli", "run", "--", sys.executable, "-c", COUNTS]
    terminal = subprocess.Popen(
        [sys.executable, "-c", f"import pty; pty.spawn({words})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NEAPTIDE_RUNTIME": str(neaptide.paths.folder)},
    )
    with terminal:
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        assert terminal.stdout.readline() == b"ready\r\n"
        terminal.stdin.write(b"\x03\n")
        terminal.stdin.flush()
        assert b"interrupts: 1\r\n" in terminal.stdout.read()


def test_kill_int_ends_a_command_in_the_background_of_a_script_though_it_ignores_ctrl_c(neaptide: Command) -> None:
    program = "import os, signal, time; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN, flush=True)"
    run = shlex.join([sys.executable, "-m", "neaptide.cli", "run", "--", sys.executable, "-c", f"{program}; {NAPS}"])
    script = f"{run} > out & until grep -q . out; do sleep 0.1; done; kill -INT $!; wait $!"
    environment = {**os.environ, "NEAPTIDE_RUNTIME": str(neaptide.paths.folder)}
    done = subprocess.run(["sh", "-c", script], cwd=neaptide.folder, env=environment, timeout=HANGS_SECONDS)
    assert (neaptide.folder / "out").read_text() == "True\n"
    assert done.returncode == 128 + signal.SIGTERM
    assert running_pid(neaptide.paths) is None


def test_an_interrupt_while_the_daemon_starts_leaves_none(neaptide: Command) -> None:
    process = neaptide.begin("run", "--", "sleep", "300")
    wait_until(lambda: (neaptide.paths.folder / "start.lock").exists())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode in (130, 128 + signal.SIGINT)
    assert "Traceback" not in err
    wait_until(lambda: running_pid(neaptide.paths) is None)


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed(neaptide: Command) -> None:
    neaptide.write(
        ("a", "import pathlib, time\nprint(1, flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)")
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = neaptide.begin("run", "jobs.toml", "-o", "kept")
    finally:
        signal.signal(signal.SIGHUP, before)
    log = neaptide.folder / "kept" / "a.log"
    wait_until(lambda: log.is_file() and log.read_text())
    process.send_signal(signal.SIGHUP)
    (neaptide.folder / "go").touch()
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == NOT_SHARED


def test_commands_that_start_at_once_share_one_daemon_that_ends_with_the_last(neaptide: Command) -> None:
    program = "import os, pathlib, time; print(os.environ['NEAPTIDE_SOCKET'], flush=True)\n"
    program += "while not pathlib.Path(os.environ['NEAPTIDE_JOB']).exists(): time.sleep(0.01)"
    runs = {name: neaptide.begin("run", "--name", name, "--", "python", "-c", program) for name in "abcd"}
    for run in runs.values():
        assert run.stdout is not None
        assert run.stdout.readline() == f"{neaptide.paths.socket}\n"
    daemon = running_pid(neaptide.paths)
    for name, run in runs.items():  # also the one that started the daemon ends before others
        assert running_pid(neaptide.paths) == daemon
        (neaptide.folder / name).touch()
        assert run.communicate(timeout=HANGS_SECONDS) == ("", f"neaptide: {WARNING}\n")
        assert run.returncode == NOT_SHARED
    assert running_pid(neaptide.paths) is None


def test_a_killed_run_does_not_end_the_daemon_that_another_one_uses(neaptide: Command) -> None:
    first = neaptide.begin("run", "--", "python", "-c", "import time; print(1, flush=True); time.sleep(300)")
    assert first.stdout is not None
    assert first.stdout.readline() == "1\n"
    second = neaptide.begin("run", "--", "python", "-c", "import time; print(1, flush=True); time.sleep(300)")
    assert second.stdout is not None
    assert second.stdout.readline() == "1\n"
    daemon = running_pid(neaptide.paths)
    first.kill()
    first.communicate()
    status = ask(neaptide.paths, StatusRequest())
    assert isinstance(status, Status)
    assert running_pid(neaptide.paths) == daemon == status.pid
    second.kill()
    second.communicate()
    wait_until(lambda: running_pid(neaptide.paths) is None)


def test_a_run_whose_daemon_was_killed_ends_well_and_leaves_no_folder(neaptide: Command) -> None:
    program = "import pathlib, time, os; print(os.getpid(), os.environ['NEAPTIDE_SOCKET'], flush=True)\n"
    neaptide.write(("a", program + "while not pathlib.Path('go').exists(): time.sleep(0.01)"))
    process = neaptide.begin("run", "jobs.toml", "-o", "kept")
    _, folder = printed(neaptide.folder / "kept" / "a.log")
    daemon = running_pid(RuntimePaths(folder))
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    (neaptide.folder / "go").touch()
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0
    assert not folder.exists()


def test_looking_for_a_daemon_does_not_keep_one_from_starting(neaptide: Command) -> None:
    prepare(neaptide.paths)
    looks = (
        "import sys; from pathlib import Path; from neaptide.live.protocol.lock import running_pid\n"
        "from neaptide.live.protocol.paths import RuntimePaths\nprint(1, flush=True)\n"
        "while True: running_pid(RuntimePaths(Path(sys.argv[1])))"
    )
    with subprocess.Popen([sys.executable, "-c", looks, str(neaptide.paths.folder)], stdout=subprocess.PIPE) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        try:
            for _ in range(1000):
                with DaemonLock(neaptide.paths):
                    assert running_pid(neaptide.paths) == os.getpid()
        finally:
            looking.kill()


def test_a_refused_run_leaves_no_folder(neaptide: Command) -> None:
    start_daemon(neaptide.paths, "temporal", 64 << 20)
    neaptide.write(("a", "pass"), top="budget = '32MiB'")
    code, out, err = neaptide("run", "jobs.toml")
    assert (code, out) == (2, "")
    assert err.startswith("neaptide: a daemon runs already with policy temporal")
    neaptide.write(("a", WAITS))
    with (neaptide.folder / "jobs.toml").open("a") as file:
        file.write("[[job]]\ncommand = '/nowhere/program'\n")
    code, _, err = neaptide("run", "jobs.toml")
    assert (code, err) == (2, "neaptide: job program: cannot run /nowhere/program: No such file or directory\n")
    assert not (neaptide.folder / "neaptide-runs").exists()


@pytest.mark.parametrize("trial", campaign.trials(6, 1, real=0.0), ids=str)
def test_a_run_interrupted_at_a_random_moment_leaves_nothing(
    trial: campaign.Trial, tmp_path_factory: pytest.TempPathFactory
) -> None:
    campaign.interrupt(trial, tmp_path_factory.mktemp("t"))
    assert trial.left == []
