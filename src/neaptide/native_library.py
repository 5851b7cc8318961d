"""C++ parts that need no torch: built just in time, once per source and set of flags, and kept in the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Headers with the rules that native code shares; a library that includes them names this folder among its own.
RULES = Path(__file__).parent / "core" / "rules"


class BuildError(ValueError):
    """A C++ part cannot be built here."""


def cache_folder() -> Path:
    """Where builds are kept: NEAPTIDE_CACHE, else the user's cache folder."""
    if named := os.environ.get("NEAPTIDE_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "neaptide"


def structure(name: str, layout: bytes) -> type[ctypes.Structure]:
    """A C++ structure as its library describes it; devices/native/layout.h says what a line holds.

    Raises BuildError where C++ leaves a gap that ctypes would not leave.
    """
    numbers = {
        **{f"u{width}": kind for width, kind in ((1, ctypes.c_uint8), (4, ctypes.c_uint32), (8, ctypes.c_uint64))},
        **{f"i{width}": kind for width, kind in ((4, ctypes.c_int32), (8, ctypes.c_int64))},
    }
    fields: list[tuple[str, type]] = []
    offsets: dict[str, int] = {}
    for line in layout.decode().splitlines():
        field, offset, size, kind = line.split()
        fields.append((field, ctypes.c_char * int(size) if kind == "t" else numbers[kind + size]))
        offsets[field] = int(offset)
    made = type(name, (ctypes.Structure,), {"_fields_": tuple(fields), "__slots__": ()})
    for field, declared in offsets.items():
        if getattr(made, field).offset != declared:
            raise BuildError(f"{name}.{field} is at byte {declared}, ctypes would put it elsewhere")
    return made


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """A shared library and what it is made of."""

    name: str  # of the file
    what: str  # in error messages
    folders: tuple[Path, ...]  # of its sources; any change in them is another build
    flags: tuple[str, ...]
    leave_out: frozenset[str] = frozenset()  # names of source files in the folders that are not its own

    def digest(self, compiler: str) -> str:
        """A name for what would be built: changes with any source, flag, compiler's name or kind of machine."""
        state = hashlib.sha256(f"{platform.machine()} {compiler} {self.flags}".encode())
        for path in self._files("*.[ch]*"):
            state.update(path.name.encode())
            state.update(path.read_bytes())
        return state.hexdigest()[:16]

    def built(self) -> Path:
        """The shared library; compiles it first when these sources were not compiled yet."""
        compiler = os.environ.get("CXX", "g++")
        target = cache_folder() / f"{self.name}-{self.digest(compiler)}.so"
        if not target.exists():
            self.compile(compiler, target)
        return target

    def compile(self, compiler: str, target: Path) -> None:
        """Build it whether it is there or not; BuildError with one clear line when that cannot be done."""
        command = compiler.split()
        if not command or shutil.which(command[0]) is None:
            raise BuildError(f"{self.what} needs a C++ compiler to be built, and {compiler!r} was not found; set CXX")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(suffix=".so", dir=target.parent)
        except OSError as error:
            raise BuildError(
                f"{self.what} cannot be built: {target.parent} is not writable ({error.strerror}); set NEAPTIDE_CACHE"
            ) from None
        os.close(handle)
        fresh = Path(name)
        try:
            sources = [str(path) for path in self._files("*.cpp")]
            call = [*command, *self.flags, *sources, "-o", name]
            done = subprocess.run(call, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                said = done.stderr.splitlines()
                lines = [line for line in said if "error" in line] or said or ["?"]
                raise BuildError(f"{self.what} cannot be built: {compiler} says {lines[0].strip()}")
            fresh.replace(target)  # others see all of it or nothing
        finally:
            fresh.unlink(missing_ok=True)

    def _files(self, pattern: str) -> list[Path]:
        found = [path for folder in self.folders for path in sorted(folder.glob(pattern))]
        return [path for path in found if path.name not in self.leave_out]
