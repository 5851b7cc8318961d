"""C++ parts, built just in time, once per source and set of flags, and kept in the user's cache.

`NativeLibrary` is a shared library without torch, for ctypes; torch_extension.py builds what needs torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Headers with the rules that native code shares; a library that includes them names this folder among its own.
RULES = Path(__file__).parent / "core" / "rules"
# Declares structures that cross into Python.
LAYOUT = Path(__file__).parent / "devices" / "native" / "layout.h"


Signature = tuple[type | None, tuple[type, ...]]  # of a function in C: its result and its arguments


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
    kinds: dict[str, Any] = {
        **{f"u{width}": kind for width, kind in ((1, ctypes.c_uint8), (4, ctypes.c_uint32), (8, ctypes.c_uint64))},
        **{f"i{width}": kind for width, kind in ((4, ctypes.c_int32), (8, ctypes.c_int64))},
        "f8": ctypes.c_double,
        "p8": ctypes.c_void_p,
        "t1": ctypes.c_char,
    }
    fields: list[tuple[str, Any]] = []
    offsets: dict[str, int] = {}
    for line in layout.decode().splitlines():
        field, offset, size, kind, count = line.split()
        fields.append((field, kinds[kind + size] if count == "0" else kinds[kind + size] * int(count)))
        offsets[field] = int(offset)
    made = type(name, (ctypes.Structure,), {"_fields_": tuple(fields), "__slots__": ()})
    for field, declared in offsets.items():
        if getattr(made, field).offset != declared:
            raise BuildError(f"{name}.{field} is at byte {declared}, ctypes would put it elsewhere")
    return made


@dataclass(frozen=True, slots=True)
class NativeSources:
    """C++ files, the flags with which they are compiled, and where what is built of them is kept."""

    name: str  # of the file
    what: str  # in error messages
    folders: tuple[Path, ...]  # of its sources; any change in them is another build
    flags: tuple[str, ...]
    headers: tuple[Path, ...] = ()  # included from elsewhere

    def sources(self) -> list[Path]:
        """The files to compile."""
        return [path for folder in self.folders for path in sorted(folder.glob("*.cpp"))]

    def files(self) -> list[Path]:
        """The files to compile, and those that they include."""
        return [*(path for folder in self.folders for path in sorted(folder.glob("*.[ch]*"))), *self.headers]

    def digest(self, tools: str) -> str:
        """A name for what would be built: changes with any source, flag, tool or kind of machine."""
        state = hashlib.sha256(f"{platform.machine()} {tools} {self.flags}".encode())
        for path in self.files():
            state.update(f"{path.parent.name}/{path.name}".encode())
            state.update(path.read_bytes())
        return state.hexdigest()[:16]

    def compiler_command(self, compiler: str) -> list[str]:
        """The compiler as a command; BuildError when it is not there."""
        command = compiler.split()
        if not command or shutil.which(command[0]) is None:
            raise BuildError(f"{self.what} needs a C++ compiler to be built, and {compiler!r} was not found; set CXX")
        return command

    @contextlib.contextmanager
    def build_lock(self, folder: Path) -> Iterator[None]:
        """Make a folder to build in, and keep other processes from building there meanwhile."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                lock = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise BuildError(
                f"{self.what} cannot be built: {folder} is not writable ({error.strerror}); set NEAPTIDE_CACHE"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def finish(built: Path, target: Path) -> None:
    """Put a file in its place so that other processes see all of it or nothing."""
    fresh = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.copy2(built, fresh)
    fresh.replace(target)


@dataclass(frozen=True, slots=True)
class NativeLibrary(NativeSources):
    """A shared library without torch."""

    def built(self) -> Path:
        """The shared library; compiles it first when these sources were not compiled yet."""
        compiler = os.environ.get("CXX", "g++")
        target = cache_folder() / f"{self.name}-{self.digest(compiler)}.so"
        if target.exists():
            return target
        command = self.compiler_command(compiler)
        with self.build_lock(target.parent):
            if not target.exists():  # else another process has built it meanwhile
                self._compile(command, target)
        return target

    def load(self, signatures: Mapping[str, Signature]) -> ctypes.CDLL:
        """The library, with these functions; it is built first if need be. In C their names begin with `neaptide_`."""
        library = ctypes.CDLL(str(self.built()))
        for name, (result, arguments) in signatures.items():
            function = getattr(library, f"neaptide_{name}")
            function.restype = result
            function.argtypes = arguments
        return library

    def _compile(self, command: list[str], target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            link = [flag for flag in self.flags if flag.startswith(("-l", "-shared", "-pthread", "-fuse"))]
            objects = [Path(folder) / f"{index}.o" for index in range(len(self.sources()))]
            calls = [
                [*command, *(flag for flag in self.flags if flag != "-shared"), "-c", str(source), "-o", str(made)]
                for source, made in zip(self.sources(), objects, strict=True)
            ]
            with ThreadPoolExecutor(os.cpu_count() or 1) as compilers:
                list(compilers.map(lambda call: self._run(call), calls))
            whole = Path(folder) / "whole.so"
            self._run([*command, *link, *map(str, objects), "-o", str(whole)])
            finish(whole, target)

    def _run(self, call: list[str]) -> None:
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.splitlines()
            lines = [line for line in said if "error" in line] or said or ["?"]
            raise BuildError(f"{self.what} cannot be built: {call[0]} says {lines[0].strip()}")
