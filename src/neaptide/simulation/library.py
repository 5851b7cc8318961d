"""Builds the engine's C++ part just in time, once per source and set of flags, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from enum import IntEnum
from functools import cache
from pathlib import Path

_NATIVE = Path(__file__).parent / "native"
# No fused multiply-add: the reference in Python must give the same bits.
_FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-Wall")


class BuildError(ValueError):
    """The engine's C++ part cannot be built here."""


def cache_folder() -> Path:
    """Where builds are kept: NEAPTIDE_CACHE, else the user's cache folder."""
    if named := os.environ.get("NEAPTIDE_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "neaptide"


def digest(compiler: str) -> str:
    """A name for what would be built: changes with any source, flag, compiler's name or kind of machine."""
    state = hashlib.sha256(f"{platform.machine()} {compiler} {_FLAGS}".encode())
    for path in sorted(_NATIVE.glob("*.[ch]*")):
        state.update(path.name.encode())
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def built() -> Path:
    """The shared library; compiles it first when these sources were not compiled yet."""
    compiler = os.environ.get("CXX", "g++")
    target = cache_folder() / f"simulation-{digest(compiler)}.so"
    if not target.exists():
        _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    command = compiler.split()
    if not command or shutil.which(command[0]) is None:
        raise BuildError(f"the simulator needs a C++ compiler to be built, and {compiler!r} was not found; set CXX")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".so", dir=target.parent)
    except OSError as error:
        raise BuildError(
            f"the simulator cannot be built: {target.parent} is not writable ({error.strerror}); set NEAPTIDE_CACHE"
        ) from None
    os.close(handle)
    fresh = Path(name)
    try:
        sources = [str(path) for path in sorted(_NATIVE.glob("*.cpp"))]
        done = subprocess.run([*command, *_FLAGS, *sources, "-o", name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
            raise BuildError(f"the simulator cannot be built: {compiler} says {lines[0].strip()}")
        fresh.replace(target)  # others see all of it or nothing
    finally:
        fresh.unlink(missing_ok=True)


class Plan(ctypes.Structure):
    """See native/plan.h."""

    _fields_ = (
        ("ops", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("host_ns", "work_ns", "ends_ns", "level", "between", "still_peak")),
        *((name, ctypes.c_void_p) for name in ("moved_bytes", "compute", "bandwidth", "fill", "heavy")),
        ("last_forward", ctypes.c_int64),
        ("persistent", ctypes.c_int64),
        ("asynchronous", ctypes.c_int32),
    )


class EventKind(IntEnum):
    """What the native engine tells; see native/engine.h."""

    NOTHING = 0
    PHASE_ENDED = 1
    ITERATION_ENDED = 2
    STALLED = 3
    EVICTED = 4
    SUSPENDED = 5
    RESUMED = 6
    FAILED = 7


class Event(ctypes.Structure):
    """See native/engine.h."""

    _fields_ = (
        ("at_ns", ctypes.c_int64),
        ("value", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("kind", ctypes.c_int32),
        ("job", ctypes.c_int32),
    )


class Costs(ctypes.Structure):
    """Contention in native/contention.h."""

    _fields_ = (
        ("capacity", ctypes.c_double * 4),
        ("wave_seconds", ctypes.c_double),
    )


class Setting(ctypes.Structure):
    """See native/engine.h."""

    _fields_ = (
        ("budget", ctypes.c_int64),
        ("highest_budget", ctypes.c_int64),
        ("link_bandwidth", ctypes.c_double),
        ("contention", Costs),
        ("oversubscribes", ctypes.c_int32),
    )


_HANDLE, _INT, _LONG, _POINTER = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "create": (_HANDLE, (_POINTER,)),
    "destroy": (None, (_HANDLE,)),
    "add_job": (_INT, (_HANDLE, _LONG)),
    "add_plan": (None, (_HANDLE, _INT, _POINTER)),
    "advance": (None, (_HANDLE, _LONG, _POINTER)),
    "set_budget": (None, (_HANDLE, _LONG, _LONG)),
    "admit": (None, (_HANDLE, _INT, _LONG)),
    "start": (None, (_HANDLE, _INT)),
    "set_plan": (None, (_HANDLE, _INT, _INT)),
    "set_gate": (None, (_HANDLE, _INT, _INT)),
    "cap": (None, (_HANDLE, _INT, _LONG)),
    "suspend": (None, (_HANDLE, _INT)),
    "resume": (None, (_HANDLE, _INT)),
    "end": (None, (_HANDLE, _INT)),
    "observe": (None, (_HANDLE, _POINTER, _POINTER)),
    "op_events": (_LONG, (_HANDLE,)),
    "peak": (_LONG, (_HANDLE,)),
    "over": (_LONG, (_HANDLE,)),
    "series_length": (_LONG, (_HANDLE, _INT)),
    "series": (None, (_HANDLE, _INT, _POINTER, _POINTER)),
    "rates": (None, (_POINTER, _LONG, _POINTER, _POINTER)),
}


@cache
def load(path: Path) -> ctypes.CDLL:
    """The functions of native/api.cpp."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, f"neaptide_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
