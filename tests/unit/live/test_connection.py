"""The thread that connects a job to its daemon, when file descriptors run out or a part of it fails."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neaptide.devices.board import BoardError
from neaptide.live.job import connection as module
from neaptide.live.job.connection import Connection
from neaptide.live.protocol.framing import DaemonInbox, frame
from neaptide.live.protocol.messages import FromDaemon, Goodbye, Hello, Message


class ScriptedClient:
    """A client that says who it is and counts how often there was no daemon."""

    refused = turned_away = holds = False
    hang_up: Callable[[], None]

    def __init__(self) -> None:
        self.lost_times = 0

    def hold(self) -> None: ...

    def hello(self, ended: int) -> Hello:
        return Hello(pid=os.getpid(), slot=0, job="job", ended=ended)

    def handle(self, message: FromDaemon) -> None: ...

    def lost(self) -> None:
        self.lost_times += 1

    def leave(self) -> None: ...


class ScriptedAgent:
    """An agent whose reports go out on the socket that it gets."""

    def __init__(self) -> None:
        self.reports: socket.socket | None = None
        self.connected = threading.Event()

    def wait_for_held_launch(self, seconds: float) -> bool:  # noqa: ARG002
        return True

    def iterations_ended(self) -> int:
        return 0

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:  # noqa: ARG002
        self.reports = socket.socket(fileno=descriptor)
        self.connected.set()

    def disconnect_reports(self) -> None:
        if self.reports is not None:
            self.reports.close()


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.001)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen(8)
        listener.settimeout(30)
        yield listener


def heard(line: socket.socket) -> list[Message]:
    """What comes on a line until its end."""
    inbox, messages = DaemonInbox(), []
    with line:
        line.settimeout(30)
        while data := line.recv(4096):
            messages += list(inbox.feed(data))
    return messages


@pytest.mark.parametrize("lacking", ["socket", "fcntl"])
def test_a_job_without_a_free_descriptor_tries_again_and_says_hello_once_it_can_report(
    lacking: str, listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError(errno.EMFILE, "Too many open files")] * 3)
    holder = module.socket if lacking == "socket" else module.fcntl
    real = getattr(holder, lacking)

    def sometimes(*arguments: object, **more: object) -> object:
        if threading.current_thread().name == "neaptide-connection" and (failure := next(failures, None)) is not None:
            raise failure
        return real(*arguments, **more)

    monkeypatch.setattr(holder, lacking, sometimes)
    client, agent = ScriptedClient(), ScriptedAgent()
    connection = Connection(client, agent, tmp_path / "sock")  # type: ignore[arg-type]
    connection.start()
    assert agent.connected.wait(30)
    assert agent.reports is not None
    assert client.lost_times == 3
    lines = [listener.accept()[0] for _ in range(4 if lacking == "fcntl" else 1)]
    agent.reports.sendall(frame(Goodbye()))
    connection.leave()
    connection.hang_up()
    for line in lines[:-1]:
        assert heard(line) == []  # the daemon heard of no job there
    assert [type(message) for message in heard(lines[-1])] == [Hello, Goodbye]


def test_a_job_whose_connection_fails_by_a_fault_goes_on_alone_and_joins_the_daemon_again(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_FAULT_SECONDS", 0.001)
    client, agent = ScriptedClient(), ScriptedAgent()
    faults = iter([BoardError("no process in slot 0")] * 2)

    def lost() -> None:
        client.lost_times += 1
        if (fault := next(faults, None)) is not None:
            raise fault

    monkeypatch.setattr(client, "lost", lost)
    connection = Connection(client, agent, tmp_path / "sock")  # type: ignore[arg-type]
    connection.start()
    listener.accept()[0].close()  # the daemon dies, and the board is damaged for a while
    with listener.accept()[0] as line:
        line.settimeout(30)
        assert [type(message) for message in DaemonInbox().feed(line.recv(4096))] == [Hello]
        assert client.lost_times >= 2
        connection.leave()
    said = capfd.readouterr().err
    assert said.count("until it can join it again: BoardError: no process in slot 0") == 1
