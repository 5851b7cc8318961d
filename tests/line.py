"""A blocking connection to the daemon, for jobs and tests without an event loop."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from neaptide.live.protocol import messages as say


class Line:
    """Says and hears one message at a time."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise

    def say(self, message: say.Message) -> None:
        self.socket.sendall(say.frame(message))

    def hear(self) -> say.FromDaemon | None:
        head = self._exactly(4)
        body = None if head is None else self._exactly(say.length_of(head))
        return None if body is None else say.read_from_daemon(body)

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self.socket.close()
