"""How commands talk to the daemon: one question and its answer, or a stream of Status."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.messages import FromDaemon, Status, ToDaemon, Watch
from neaptide.live.protocol.paths import RuntimePaths


class NoDaemonError(ValueError):
    """No daemon answers."""


def ask(paths: RuntimePaths, message: ToDaemon, seconds: float = 10.0) -> FromDaemon:
    """Send one message and return the answer; NoDaemonError when no daemon listens or answers."""
    with _connect(paths, seconds) as line:
        line.sendall(frame(message))
        answer = _receive(line)
        if answer is None:
            raise NoDaemonError(f"the daemon in {paths.folder} closed the connection without an answer")
        return answer


def watch(paths: RuntimePaths, seconds: float = 10.0) -> Iterator[Status]:
    """A Status twice a second until the daemon ends; NoDaemonError when no daemon listens or answers."""
    with _connect(paths, seconds) as line:
        line.sendall(frame(Watch()))
        while isinstance(answer := _receive(line), Status):
            yield answer


def _connect(paths: RuntimePaths, seconds: float) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    line.settimeout(seconds)
    try:
        line.connect(str(paths.socket))
    except OSError:
        line.close()
        raise NoDaemonError(f"no daemon runs in {paths.folder}; start one with neaptide up") from None
    return line


def _receive(line: socket.socket) -> FromDaemon | None:
    try:
        return receive_from_daemon(line)
    except TimeoutError:
        raise NoDaemonError("the daemon does not answer") from None
    except ConnectionError:
        return None
