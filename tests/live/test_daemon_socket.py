"""What the daemon accepts on its socket."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pytest

from daemons import DaemonThread
from line import Line
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.asking import watch
from neaptide.live.protocol.framing import frame


def test_only_the_user_may_connect_to_the_daemon(daemon: DaemonThread) -> None:
    assert daemon.paths.socket.stat().st_mode & 0o777 == 0o600
    assert daemon.paths.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x05hello",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        frame(say.Welcome(True, "a", 1, "none")),
        frame(say.IterationEnded(1, 1.0, 1, 1)),
        frame(say.Goodbye()) + frame(say.StatusRequest()),
    ],
)
def test_a_malformed_oversized_or_foreign_message_ends_only_its_connection(daemon: DaemonThread, data: bytes) -> None:
    other = Line(daemon.paths.socket)
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.settimeout(20)
        foreign.connect(str(daemon.paths.socket))
        foreign.sendall(data)
        with suppress(ConnectionResetError):
            assert foreign.recv(1) == b""
    other.say(say.StatusRequest())
    assert isinstance(other.hear(), say.Status)
    other.close()


def test_a_message_may_arrive_in_pieces_and_several_may_arrive_at_once(daemon: DaemonThread) -> None:
    line = Line(daemon.paths.socket)
    data = frame(say.StatusRequest()) * 3
    for byte in data[:-2]:
        line.socket.sendall(bytes([byte]))
    line.socket.sendall(data[-2:])
    assert all(isinstance(line.hear(), say.Status) for _ in range(3))
    line.close()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (
            say.Hello(version=99, pid=1, slot=0, job="x"),
            f"the job speaks version 99 of the protocol, the daemon {say.VERSION}",
        ),
        (say.Hello(pid=1, slot=5, job="x"), "it says that it is process 1, and its connection comes from another"),
        (say.Hello(pid=os.getpid(), slot=5, job="x"), f"process {os.getpid()} does not have slot 5"),
    ],
    ids=["another version", "another process", "another slot"],
)
def test_a_hello_that_is_not_true_is_refused(daemon: DaemonThread, hello: say.Hello, reason: str) -> None:
    line = Line(daemon.paths.socket)
    line.say(hello)
    answer = line.hear()
    assert isinstance(answer, say.JobRefused)
    assert answer.reason.startswith(reason)
    assert line.hear() is None
    line.close()


def test_a_watcher_receives_the_status_repeatedly(daemon: DaemonThread) -> None:
    statuses = watch(daemon.paths)
    first, second = next(statuses), next(statuses)
    assert second.uptime_seconds > first.uptime_seconds
    statuses.close()  # type: ignore[attr-defined]
