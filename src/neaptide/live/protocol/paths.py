"""The runtime directory, which belongs to the user alone, and the daemon's files in it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from neaptide.devices import DEFAULT_DEVICE, chosen_device


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

    Every device but the default one has a folder of its own beside the latter two, such as `neaptide-KIND-1`.
    """
    if named := os.environ.get("NEAPTIDE_RUNTIME"):
        return RuntimePaths(Path(named).absolute())
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "neaptide" if base else Path(f"/tmp/neaptide-{os.getuid()}")
    device = chosen_device()
    return RuntimePaths(folder if device == DEFAULT_DEVICE else folder.with_name(f"{folder.name}-{device.folder}"))


def prepare(paths: RuntimePaths) -> None:
    """Make the directory for this user alone; RuntimeDirectoryError when that is not possible."""
    folder = paths.folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise RuntimeDirectoryError(f"{folder} cannot be used: {error.strerror}; set NEAPTIDE_RUNTIME") from None
    if not stat.S_ISDIR(found.st_mode):
        raise RuntimeDirectoryError(f"{folder} is not a directory; set NEAPTIDE_RUNTIME")
    if found.st_uid != os.getuid():
        raise RuntimeDirectoryError(f"{folder} belongs to another user; set NEAPTIDE_RUNTIME")
    if found.st_mode & 0o077:
        try:
            folder.chmod(0o700)
        except OSError as error:
            raise RuntimeDirectoryError(f"{folder} is open to others: {error.strerror}; set NEAPTIDE_RUNTIME") from None
    # The address of a Unix socket has room for 107 bytes.
    if len(os.fsencode(paths.socket)) > 107:
        raise RuntimeDirectoryError(f"the path {paths.socket} is too long for a socket; set NEAPTIDE_RUNTIME")
