"""How commands speak with the daemon: one question and its answer, or a stream of Status."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths


class NoDaemonError(ValueError):
    """No daemon answers."""


def ask(paths: RuntimePaths, message: say.ToDaemon, seconds: float = 10.0) -> say.FromDaemon:
    """Say one thing and return the answer; NoDaemonError when nobody listens or answers."""
    with _connect(paths, seconds) as line:
        line.sendall(say.frame(message))
        answer = _read(line)
        if answer is None:
            raise NoDaemonError(f"the daemon in {paths.folder} hung up")
        return answer


def watch(paths: RuntimePaths, seconds: float = 10.0) -> Iterator[say.Status]:
    """How things stand, twice a second, until the daemon ends; NoDaemonError when there is none or it is silent."""
    with _connect(paths, seconds) as line:
        line.sendall(say.frame(say.Watch()))
        while isinstance(answer := _read(line), say.Status):
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


def _read(line: socket.socket) -> say.FromDaemon | None:
    try:
        head = _exactly(line, say.LENGTH.size)
        body = None if head is None else _exactly(line, say.length_of(head))
    except TimeoutError:
        raise NoDaemonError("the daemon does not answer") from None
    except ConnectionError:
        return None
    return None if body is None else say.read_from_daemon(body)


def _exactly(line: socket.socket, count: int) -> bytes | None:
    """So many bytes, or None when the other side hung up first."""
    parts = bytearray()
    while len(parts) < count:
        part = line.recv(min(count - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)
