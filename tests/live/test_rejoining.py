"""Jobs that lose their daemon or their connection and join again: none of them ends by that."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemons import MIB, DaemonProcess, goes_on, kill, until
from neaptide.live.job import connection
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.framing import frame


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path / "run")
    yield daemon
    assert "fault" not in daemon.stop()


def test_a_job_larger_than_the_next_daemons_budget_waits_until_it_is_raised(daemon: DaemonProcess) -> None:
    job = daemon.run(name="job", iterations=100_000, ephemeral=50 * MIB)
    goes_on(job)
    daemon.process.kill()
    daemon.process.communicate()
    daemon.budget = 30 * MIB
    daemon.start()
    until(lambda: daemon.has("job", "queued"), "it to wait")
    assert "the budget is 30.0 MiB" in daemon.job("job").reason
    until(lambda: daemon.status().used_bytes == 0, "its memory to be in host memory")
    other = daemon.run(name="other", iterations=5, persistent=4 * MIB, ephemeral=16 * MIB)
    other.join()
    assert other.done == 5
    ask(daemon.paths, say.SetBudget(100 * MIB))
    goes_on(job)
    assert job.refused is None
    assert not daemon.job("job").reason


def test_a_job_that_a_daemon_of_another_version_refuses_goes_on_alone_and_joins_the_next_one(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "_TURNED_AWAY_SECONDS", 0.1)
    job = daemon.run(name="job", iterations=100_000)
    goes_on(job)
    daemon.process.kill()
    daemon.process.communicate()
    daemon.paths.socket.unlink()
    refusals = threading.Semaphore(0)
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(daemon.paths.socket))
        foreign.listen()

        def refuse() -> None:
            with suppress(OSError):
                while True:
                    line, _ = foreign.accept()
                    with line:
                        line.recv(1 << 16)
                        line.sendall(frame(say.JobRefused("the job speaks version 2 of the protocol, the daemon 9")))
                    refusals.release()

        threading.Thread(target=refuse, daemon=True).start()
        for _ in range(3):
            assert refusals.acquire(timeout=30)
        goes_on(job)
        foreign.shutdown(socket.SHUT_RDWR)
    daemon.start()
    until(lambda: daemon.has("job", "running"), "it to join")
    goes_on(job)
    complaints = [line for line in capfd.readouterr().err.splitlines() if "version 9" in line or "daemon 9" in line]
    assert complaints == [
        "neaptide: job job goes on without the daemon, under the board's limits: "
        "the job speaks version 2 of the protocol, the daemon 9"
    ]


def test_connections_that_closed_and_opened_while_the_daemon_was_stopped_are_one_job(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.01)
    job = daemon.run(name="job", iterations=100_000)
    goes_on(job)
    daemon.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        line = job.connection._socket
        job.connection.hang_up()
        until(lambda line=line: job.connection._socket not in (None, line), "it to connect again")  # type: ignore[misc]
    daemon.process.send_signal(signal.SIGCONT)
    until(lambda: daemon.has("job", "running"), "it to have joined")
    goes_on(job)
    assert [(each.name, each.state) for each in daemon.status().jobs] == [("job", "running")]
    assert job.refused is None


FORKS = """
import ctypes, sys, threading
from pathlib import Path
from fake_job import FakeJob, FakeJobSpec
job = FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), FakeJobSpec(name="forks", iterations=10**6)).start()
while job.done < 5:
    threading.Event().wait(0.01)
libc = ctypes.CDLL(None)
if libc.fork() == 0:  # no handler of Python's runs, so the child has the parent's connection
    libc.alarm(60)
    libc.pause()
print("forked", flush=True)
threading.Event().wait()
"""


def test_a_killed_job_whose_child_holds_its_connection_is_gone(daemon: DaemonProcess) -> None:
    command = [sys.executable, "-c", FORKS, str(daemon.paths.socket), str(daemon.paths.board)]
    path = {"PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path])}
    process = subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        process.kill()
        process.wait(30)
        until(lambda: daemon.has("forks", "failed"), "it to be gone")
        other = daemon.run(name="other", iterations=5)
        other.join()
        assert other.done == 5
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill(process)
