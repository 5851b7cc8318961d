"""The runtime directory, which belongs to the user alone, and the daemon's files in it."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from neaptide.devices import DeviceName, chosen_device


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
    folder = Path(base) / "neaptide" if base else Path(f"/tmp/neaptide-{os.getuid()}")
    device = chosen_device()
    return RuntimePaths(folder if device == DeviceName("soft") else folder.with_name(f"{folder.name}-{device.folder}"))


def parent_of_private_folders() -> Path:
    """Where a run makes the folder of a daemon or a board of its own."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base if base and os.access(base, os.W_OK) else tempfile.gettempdir())


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
    check_folder(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise RuntimeDirectoryError(f"{folder} cannot be used: {error.strerror}; set NEAPTIDE_RUNTIME") from None
    # The address of a Unix socket has room for 107 bytes.
    if len(os.fsencode(paths.socket)) > 107:
        raise RuntimeDirectoryError(f"the path {paths.socket} is too long for a socket; set NEAPTIDE_RUNTIME")
