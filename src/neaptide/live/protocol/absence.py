"""Tells the daemon that a process which should be a job is not one, for as long as that is true."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from neaptide.live.protocol.framing import frame
from neaptide.live.protocol.messages import REASON_LETTERS, NotShared
from neaptide.live.protocol.paths import RuntimeDirectoryError
from neaptide.live.protocol.peers import connect

_SECONDS = 1.0


class Absence:
    """One connection to the daemon, which lists the process under its reason until the connection ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: socket.socket | None = None

    def tell(self, job: str, reason: str, pid: int | None = None) -> None:
        """Have the daemon show the reason, if there is a daemon; `pid`: of another process than this one."""
        self.end()
        with suppress(OSError, RuntimeDirectoryError):
            self._line = connect(self._path, _SECONDS)
            self._line.sendall(frame(NotShared(pid or os.getpid(), job, reason[:REASON_LETTERS])), socket.MSG_NOSIGNAL)

    def end(self) -> None:
        """End the connection: the process is a job now, or it is a fork of the process that opened the connection."""
        line, self._line = self._line, None
        if line is not None:
            with suppress(OSError):
                line.close()
