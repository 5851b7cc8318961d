"""One daemon per device: a lock on the folder and one on the pid file, which the kernel releases however it dies.

The lock on the pid file is an open file description lock: others can see it without taking a lock themselves, which
would get in the way of a daemon that starts at that moment. The lock on the folder keeps a second daemon away when the
folder was emptied.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from neaptide.live.protocol.paths import RuntimePaths, check_folder

_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class DaemonRunsError(ValueError):
    """A daemon runs for this device already."""


class DaemonLock:
    """Held while a daemon runs. Taking it removes the socket and the pid that a killed daemon left behind."""

    def __init__(self, paths: RuntimePaths) -> None:
        self._paths = paths
        self._folder = -1
        self._file = -1

    def __enter__(self) -> Self:
        if not self._take():
            pid = _pid_in(self._paths)
            who = f"with pid {pid} " if pid else ""
            raise DaemonRunsError(
                f"a daemon {who}runs for this device already ({self._paths.folder}); neaptide down ends it"
            )
        self._paths.socket.unlink(missing_ok=True)
        return self

    @property
    def is_in_place(self) -> bool:
        """Whether the paths still name the folder and the file that are locked. Changes nothing."""
        return _is_at(self._folder, self._paths.folder) and _is_at(self._file, self._paths.pid)

    def put_back(self) -> bool:
        """Lock the folder and the file that are there now, if others are; False when another daemon has them."""
        return self.is_in_place or self._take()

    def _take(self) -> bool:
        folder, file = self._folder, self._file
        if not _is_at(folder, self._paths.folder):
            folder = os.open(self._paths.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not _is_at(file, self._paths.pid):
            file = os.open(self._paths.pid, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except BlockingIOError:
            for new, old in ((folder, self._folder), (file, self._file)):
                if new != old:
                    os.close(new)
            return False
        for new, old in ((folder, self._folder), (file, self._file)):
            if new != old and old >= 0:
                os.close(old)
        self._folder, self._file = folder, file
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._paths.socket.unlink(missing_ok=True)
        # The file stays: removing it would let two daemons lock two files of one name.
        os.ftruncate(self._file, 0)
        os.close(self._file)
        os.close(self._folder)


def running_pid(paths: RuntimePaths) -> int | None:
    """The pid of the daemon that runs now, if one does. Changes nothing, and takes no lock."""
    check_folder(paths.folder)
    try:
        file = os.open(paths.pid, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        held, *_ = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE_FILE))
        return None if held == fcntl.F_UNLCK else _read(file)
    finally:
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    if file < 0:
        return False
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _pid_in(paths: RuntimePaths) -> int | None:
    try:
        file = os.open(paths.pid, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return _read(file)
    finally:
        os.close(file)


def _read(file: int) -> int | None:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else None
