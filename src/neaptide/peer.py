"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a Unix socket: the one that connected, or the one that listens."""

    pid: int  # 0: a process of a pid namespace that this one cannot see
    uid: int

    @classmethod
    def of(cls, line: socket.socket) -> Peer:
        pid, uid, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return cls(pid, uid)

    @property
    def is_this_user(self) -> bool:
        return self.uid == os.geteuid()
