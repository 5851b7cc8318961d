"""The runtime directory, which belongs to the user alone, and the daemon's files in it."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from neaptide.devices import DeviceName, chosen_device

_SOCKET_BYTES = 107  # for which the address of a Unix socket has room


class RuntimeDirectoryError(ValueError):
    """The runtime directory cannot be used or trusted."""


@dataclass(frozen=True, slots=True)
class RuntimePaths:
    """The files of one daemon, and so of one device."""

    folder: Path

    @property
    def socket(self) -> Path:
        return self.folder / "daemon.sock"

    @property
    def pid(self) -> Path:
        return self.folder / "daemon.pid"

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def board(self) -> Path:
        return self.folder / "board"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    @property
    def log(self) -> Path:
        return self.folder / "daemon.log"


def runtime_paths() -> RuntimePaths:
    """NEAPTIDE_RUNTIME, else `neaptide` in the user's runtime directory, else a folder in /tmp. Makes nothing.

    Every device but the first software GPU has a folder of its own beside the latter two, such as `neaptide-KIND-1`.
    """
    if named := os.environ.get("NEAPTIDE_RUNTIME"):
        return RuntimePaths(Path(named).absolute())
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base).absolute() / "neaptide" if base else Path(f"/tmp/neaptide-{os.getuid()}")
    device = chosen_device()
    return RuntimePaths(folder if device == DeviceName("soft") else folder.with_name(f"{folder.name}-{device.folder}"))


def check_folder(folder: Path) -> None:
    """Trust a runtime directory or raise RuntimeDirectoryError; one that does not exist passes. Changes nothing.

    Jobs, commands and the daemon all ask this before they open anything in it. It must be a directory, no link, that
    belongs to this user and into which nobody else may write.
    """
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise RuntimeDirectoryError(f"{folder} cannot be used: {error.strerror}; set NEAPTIDE_RUNTIME") from None
    if not stat.S_ISDIR(found.st_mode):
        raise RuntimeDirectoryError(f"{folder} is not a directory; set NEAPTIDE_RUNTIME")
    if found.st_uid != os.geteuid():
        raise RuntimeDirectoryError(f"{folder} belongs to another user; set NEAPTIDE_RUNTIME")
    if found.st_mode & 0o022:
        raise RuntimeDirectoryError(f"other users may write into {folder}; chmod 700 it, or set NEAPTIDE_RUNTIME")


def prepare(paths: RuntimePaths) -> None:
    """Make the directory for this user alone; RuntimeDirectoryError when that is not possible."""
    folder = paths.folder
    if not _has_room_for_socket(paths):
        raise RuntimeDirectoryError(f"the path {paths.socket} is too long for a socket; set NEAPTIDE_RUNTIME")
    check_folder(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise RuntimeDirectoryError(f"{folder} cannot be used: {error.strerror}; set NEAPTIDE_RUNTIME") from None


def temporary_paths() -> RuntimePaths:
    """For a daemon of one run: a new folder in the user's runtime directory, or else where temporary files are.

    A place whose path leaves no room for a socket is passed over. Makes nothing.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(place).absolute() for place in (base, tempfile.gettempdir(), "/tmp") if place]
    name = f"neaptide-run-{secrets.token_hex(4)}"
    found = [RuntimePaths(place / name) for place in places if os.access(place, os.W_OK)]
    return next((paths for paths in found if _has_room_for_socket(paths)), found[0])


def _has_room_for_socket(paths: RuntimePaths) -> bool:
    return len(os.fsencode(paths.socket)) <= _SOCKET_BYTES
