"""What comes over the socket cannot make the daemon grow, nor keep an honest job waiting."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from board_member import Member
from daemons import MIB, DaemonProcess, DaemonThread, goes_on, until
from line import Line
from neaptide.devices.board import Board
from neaptide.live.daemon.io import connections
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import MOST_BYTES, frame
from trace_bombs import bomb


def is_closed(line: Line) -> bool:
    """Whether the daemon has ended the connection."""
    line.socket.settimeout(0.01)
    with suppress(TimeoutError):
        try:
            return line.socket.recv(1 << 20) == b""
        except ConnectionError:
            return True
    return False


def half_a_message(line: Line, announced: int, sent: int) -> None:
    begin = announced.to_bytes(4, "big") + msgspec.msgpack.encode({"say": "Profiled", "trace": b""})
    with suppress(OSError):
        line.socket.sendall(begin + bytes(sent - len(begin)))


def memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def test_connections_that_say_nothing_or_half_a_message_are_closed(
    daemon: DaemonThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SILENT_SECONDS", 0.2)
    silent, half, watcher = (Line(daemon.paths.socket) for _ in range(3))
    half_a_message(half, 1 << 20, 1 << 10)
    watcher.say(say.StatusRequest())
    assert isinstance(watcher.hear(), say.Status)
    until(lambda: is_closed(silent), "the silent one to be closed")
    until(lambda: is_closed(half), "the one with half a message to be closed")
    watcher.say(say.StatusRequest())
    assert isinstance(watcher.hear(), say.Status)
    for line in (silent, half, watcher):
        line.close()


def test_half_messages_and_unread_answers_do_not_grow_the_daemon(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    job = daemon.run(name="honest", iterations=100_000)
    goes_on(job)
    before = memory_bytes(daemon.process.pid)
    lines = [Line(daemon.paths.socket) for _ in range(10)]
    for line in lines[:6]:
        half_a_message(line, MOST_BYTES, MOST_BYTES - 1)
    for line in lines[6:]:
        line.socket.settimeout(0.2)
        with suppress(OSError):
            while True:
                line.socket.sendall(frame(say.StatusRequest()) * 1000)
        assert is_closed(line) or memory_bytes(daemon.process.pid) - before < 200 * MIB
    assert memory_bytes(daemon.process.pid) - before < 200 * MIB
    goes_on(job)
    for line in lines:
        line.close()
    daemon.stop()


def test_the_oldest_connections_without_a_job_make_room_for_new_ones(daemon: DaemonThread) -> None:
    job = daemon.run(name="honest", iterations=100_000)
    goes_on(job)
    lines = [Line(daemon.paths.socket) for _ in range(connections.MOST_CONNECTIONS + 20)]
    until(lambda: is_closed(lines[0]), "the oldest to be closed")
    lines[-1].say(say.StatusRequest())
    assert isinstance(lines[-1].hear(), say.Status)
    goes_on(job)
    for line in lines:
        line.close()


def test_a_message_that_declares_two_gigabytes_of_zeros_is_refused_at_once(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    before = memory_bytes(daemon.process.pid)
    job = daemon.run(name="honest", iterations=100_000)
    goes_on(job)
    board = Board.open(daemon.paths.board)
    member, line = Member(board, "bomb"), Line(daemon.paths.socket)
    line.say(say.Hello(pid=os.getpid(), slot=member.slot, job="bomb", resumed=True, trace=bomb(2 << 30, 64 << 20)))
    _, refused = line.hear(), line.hear()
    assert isinstance(refused, say.JobRefused)
    assert "it declares" in refused.reason
    assert memory_bytes(daemon.process.pid) - before < 60 * MIB
    goes_on(job)
    line.close()
    member.leave()
    board.close()
    daemon.stop()


def test_a_job_of_another_version_is_told_why(daemon: DaemonThread) -> None:
    theirs = msgspec.msgpack.encode({"say": "Hello", "version": 9, "name": "from the future"})
    line = Line(daemon.paths.socket)
    line.socket.sendall(len(theirs).to_bytes(4, "big") + theirs)
    assert line.hear() == say.JobRefused(f"the job speaks version 9 of the protocol, the daemon {say.VERSION}")
    assert line.hear() is None
    line.close()


def test_complaints_about_connections_are_few(daemon: DaemonThread, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(100):
        with socket.socket(socket.AF_UNIX) as foreign, suppress(ConnectionError):
            foreign.connect(str(daemon.paths.socket))
            foreign.sendall(b"\0\0\0\x05hello")
            foreign.recv(1)
    assert capfd.readouterr().err.count("a connection was closed") <= 20
