"""A blocking connection to the daemon, for jobs and tests without an event loop."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.peers import connect


class Line:
    """Sends and receives one message at a time."""

    def __init__(self, path: Path) -> None:
        self.socket = connect(path, 20)

    def say(self, message: say.Message) -> None:
        self.socket.sendall(frame(message))

    def hear(self) -> say.FromDaemon | None:
        try:
            return receive_from_daemon(self.socket)
        except ConnectionError:
            return None

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self.socket.close()
