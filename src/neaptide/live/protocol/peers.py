"""Connections to the user's own daemon."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from neaptide.live.protocol.paths import RuntimeDirectoryError, check_folder
from neaptide.peer import Peer

_DURATION = struct.Struct("@ll")  # seconds, microseconds


def connect(path: Path, seconds: float) -> socket.socket:
    """Connect to the daemon that listens at this path; OSError when none does.

    RuntimeDirectoryError unless the folder and the daemon belong to this user. `seconds` stays the socket's timeout.
    """
    check_folder(path.parent)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # A non-blocking socket would not wait while other connections are waiting for the daemon.
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _DURATION.pack(int(seconds), round(seconds % 1 * 1e6)))
        line.connect(str(path))
        line.settimeout(seconds)
        if not (peer := Peer.of(line)).is_this_user:
            raise RuntimeDirectoryError(f"user {peer.uid} listens at {path}, not you; set NEAPTIDE_RUNTIME")
    except BaseException:
        line.close()
        raise
    return line
