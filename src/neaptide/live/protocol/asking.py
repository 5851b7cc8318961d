"""How commands talk to the daemon: one question and its answer, or a stream of Status."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.messages import FromDaemon, Status, ToDaemon, Watch
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.protocol.peers import connect

ANSWER_SECONDS = 10.0  # that the daemon has for its answer


class NoDaemonError(ValueError):
    """No daemon answers."""


class SilentDaemonError(NoDaemonError):
    """A daemon listens and does not answer."""


def ask(paths: RuntimePaths, message: ToDaemon) -> FromDaemon:
    """Send one message and return the answer; NoDaemonError when no daemon listens or answers."""
    with open_line(paths) as line:
        return ask_on(line, message)


def ask_on(line: socket.socket, message: ToDaemon) -> FromDaemon:
    """The same on an open connection."""
    answer = _ask(line, message)
    if answer is None:
        raise NoDaemonError("the daemon closed the connection without an answer")
    return answer


def watch(paths: RuntimePaths) -> Iterator[Status]:
    """A Status twice a second until the daemon ends; NoDaemonError when no daemon listens or answers."""
    with open_line(paths) as line:
        answer = _ask(line, Watch())
        while isinstance(answer, Status):
            yield answer
            answer = _receive(line)


def open_line(paths: RuntimePaths) -> socket.socket:
    """A connection to the daemon; NoDaemonError when none listens. Nothing waits longer than ANSWER_SECONDS on it."""
    try:
        return connect(paths.socket, ANSWER_SECONDS)
    except BlockingIOError:  # too many other connections wait for the daemon
        raise SilentDaemonError("the daemon does not answer") from None
    except OSError:
        raise NoDaemonError(f"no daemon runs in {paths.folder}; start one with neaptide up") from None


def _ask(line: socket.socket, message: ToDaemon) -> FromDaemon | None:
    try:
        line.sendall(frame(message))
    except ConnectionError:
        return None
    return _receive(line)


def _receive(line: socket.socket) -> FromDaemon | None:
    try:
        return receive_from_daemon(line)
    except TimeoutError:
        raise SilentDaemonError("the daemon does not answer") from None
    except ConnectionError:
        return None
