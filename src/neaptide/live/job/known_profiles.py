"""What earlier runs of the same program measured, kept in the user's cache.

A job that ran before need not be measured before it is admitted: the daemon plans with what the earlier run measured,
and the new measurement corrects that. One file per program, named by everything on which its memory may depend: the
command, the script's text, the folder, the kind of job, the device and the versions. A file that is damaged, old, or of
another version is as good as none. The folder is bounded in files and bytes; the oldest go first.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import msgspec

from neaptide import __version__
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import VERSION, TraceFormatError, encode, try_decode
from neaptide.devices.interface import DeviceAgent
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.protocol.messages import LeaseOverheadBytes
from neaptide.native_library import cache_folder

MOST_FILES = 256
MOST_BYTES = 64 << 20
MOST_SECONDS = 30 * 24 * 3600.0
_LARGEST_BYTES = 8 << 20  # of one file
_SCRIPT_BYTES = 4 << 20  # of a script's text that counts


@dataclass(frozen=True, eq=False)
class KnownProfile:
    """An iteration as an earlier run measured it."""

    trace: Trace
    overhead: LeaseOverhead
    serves: bool  # it was measured before the program trained

    @property
    def peak_bytes(self) -> int:
        """The most that it leases."""
        return Leases.of(self.trace, self.overhead).peak_bytes


class _Saved(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    overhead: LeaseOverheadBytes
    serves: bool
    trace: bytes


def profiles_folder() -> Path:
    """Where profiles are kept: NEAPTIDE_PROFILES, else in the user's cache folder."""
    named = os.environ.get("NEAPTIDE_PROFILES")
    return Path(named) if named else cache_folder() / "profiles"


class KnownProfiles:
    """The files in one folder. No method raises for what is in them, or for a folder that cannot be written."""

    def __init__(self, folder: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_files, self._most_bytes = most_files, most_bytes

    def find(self, key: str) -> KnownProfile | None:
        """What is known of a program; None if nothing is, or it cannot be used. Changes nothing."""
        path = self._folder / key
        try:
            seen = path.stat()
            if seen.st_size > _LARGEST_BYTES or time.time() - seen.st_mtime > MOST_SECONDS:
                return None
            saved = msgspec.msgpack.decode(path.read_bytes(), type=_Saved)
        except (OSError, msgspec.DecodeError):
            return None
        trace = try_decode(saved.trace)
        if isinstance(trace, TraceFormatError):
            return None
        return KnownProfile(trace, LeaseOverhead(*saved.overhead), saved.serves)

    def save(self, key: str, known: KnownProfile) -> None:
        """Keep what was measured, in place of what was known before."""
        content = msgspec.msgpack.encode(_Saved(astuple(known.overhead), known.serves, encode(known.trace)))
        if len(content) > _LARGEST_BYTES:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(prefix=".", dir=self._folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(unfinished).replace(self._folder / key)
            except OSError:
                Path(unfinished).unlink(missing_ok=True)
                raise
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Remove what is too old, and the oldest files beyond the bounds; unfinished files of killed programs too."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):  # another program may be faster
                seen = path.stat()
                files.append((seen.st_mtime, seen.st_size, path))
        size = 0
        for number, (changed, each_bytes, path) in enumerate(sorted(files, reverse=True)):
            size += each_bytes
            unfinished = path.name.startswith(".") and time.time() - changed > 60
            too_old = time.time() - changed > MOST_SECONDS
            if unfinished or too_old or number >= self._most_files or size > self._most_bytes:
                with suppress(OSError):
                    path.unlink()


def key_of_program(settings: JobSettings, agent: DeviceAgent, torch_version: str) -> str:
    """A name for this process's program: another one for everything that may change what its iterations need."""
    script = Path(sys.argv[0]) if sys.argv else Path()
    text, folder = b"", ""
    with suppress(OSError):
        folder = os.getcwd()
    with suppress(OSError), script.open("rb") as file:
        text = file.read(_SCRIPT_BYTES)
    facts = (
        __version__,
        VERSION,
        torch_version,
        platform.python_version(),
        settings.kind.value,
        agent.spec_name,
        agent.sms,
        folder,
        sys.orig_argv[1:],
        sys.argv,
        hashlib.sha256(text).hexdigest(),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()
