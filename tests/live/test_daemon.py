"""The daemon as a program: how it begins and ends, and its commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons import DaemonProcess, until
from hangs import HANGS_SECONDS
from neaptide.cli import main
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.lock import running_pid


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path / "run")
    yield daemon
    assert "fault" not in daemon.stop()


def command(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NEAPTIDE_RUNTIME": str(daemon.paths.folder)}
    call = [sys.executable, "-m", "neaptide.cli", *words]
    return subprocess.run(call, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)


def test_a_second_daemon_for_the_device_refuses_with_one_line(daemon: DaemonProcess) -> None:
    second = command(daemon, "up", "--foreground")
    assert second.returncode == 2
    assert second.stderr == (
        f"neaptide: a daemon with pid {daemon.process.pid} runs for this device already "
        f"({daemon.paths.folder}); neaptide down ends it\n"
    )
    assert daemon.status().pid == daemon.process.pid


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_daemon_cleanly(daemon: DaemonProcess, number: signal.Signals, code: int) -> None:
    daemon.process.send_signal(number)
    assert daemon.process.wait(HANGS_SECONDS) == code
    assert not daemon.paths.socket.exists()
    assert running_pid(daemon.paths) is None


def test_the_files_of_a_killed_daemon_do_not_hinder_the_next_daemon(daemon: DaemonProcess) -> None:
    daemon.process.kill()
    daemon.process.communicate()
    assert daemon.paths.socket.exists()
    assert daemon.paths.pid.read_text().strip() == str(daemon.process.pid)
    assert running_pid(daemon.paths) is None
    daemon.start()
    assert daemon.paths.pid.read_text().strip() == str(daemon.process.pid)


def test_up_returns_when_the_daemon_answers_and_down_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEAPTIDE_RUNTIME", str(tmp_path / "run"))

    def neaptide(words: str) -> tuple[int, str]:
        code = main(words.split())
        said = capsys.readouterr()
        return code, said.out + said.err

    no_daemon = f"neaptide: no daemon runs in {tmp_path / 'run'}; start one with neaptide up\n"
    assert neaptide("status") == (3, no_daemon)
    assert neaptide("budget 60MiB") == (2, no_daemon)
    code, said = neaptide("up --budget 50MiB --policy zico")
    assert (code, said.split(": ")[1]) == (0, "policy zico, budget 50.0 MiB\n")
    assert neaptide("up")[0] == 2
    assert neaptide("status")[1].startswith("daemon ")
    assert neaptide("budget 60MiB") == (0, "budget 60.0 MiB, used 0 B\n")
    assert neaptide("down") == (0, "daemon down\n")
    assert neaptide("status") == (3, no_daemon)
    assert neaptide("down") == (0, f"no daemon runs in {tmp_path / 'run'}\n")
    code, said = neaptide("up --policy zicko")
    assert (code, said.count("\n")) == (2, 1)


def test_jobs_go_on_when_the_daemon_is_shut_down(daemon: DaemonProcess) -> None:
    jobs = [daemon.run(name=name, iterations=10_000) for name in "ab"]
    until(lambda: all(job.done > 3 for job in jobs), "both to run")
    assert ask(daemon.paths, say.Shutdown()) == say.Done()
    assert daemon.process.wait(HANGS_SECONDS) == 0
    before = [job.done for job in jobs]
    until(lambda: all(job.done > done + 5 for job, done in zip(jobs, before, strict=True)), "both to go on")
