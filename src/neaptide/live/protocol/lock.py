"""One daemon per device: a lock on the pid file, which the kernel releases however the daemon dies."""

from __future__ import annotations

import fcntl
import os
from types import TracebackType
from typing import Self

from neaptide.live.protocol.paths import RuntimePaths


class DaemonRunsError(ValueError):
    """A daemon runs for this device already."""


class DaemonLock:
    """Held while a daemon runs. Taking it removes the socket and the pid that a killed daemon left behind."""

    def __init__(self, paths: RuntimePaths) -> None:
        self._paths = paths
        self._file = -1

    def __enter__(self) -> Self:
        self._file = os.open(self._paths.pid, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _read(self._file)
            os.close(self._file)
            who = f"with pid {pid} " if pid else ""
            raise DaemonRunsError(
                f"a daemon {who}runs for this device already ({self._paths.folder}); neaptide down ends it"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        self._paths.socket.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._paths.socket.unlink(missing_ok=True)
        # The file stays: removing it would let two daemons lock two files of one name.
        os.ftruncate(self._file, 0)
        os.close(self._file)


def running_pid(paths: RuntimePaths) -> int | None:
    """The pid of the daemon that runs now, if one does. Changes nothing."""
    try:
        file = os.open(paths.pid, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(file)
    finally:
        os.close(file)
    return None


def _read(file: int) -> int | None:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else None
