"""`cuda` as a second name of the soft device: a device asked for as `cuda` is the soft one, and reads as `cuda`.

It reads as `cuda` because programs and libraries compare: Lightning refuses a device whose type is not `cuda`,
Accelerate refuses float16 on one, and many scripts pin memory, scale losses or autocast only on `cuda`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from neaptide.native_library import NativeLibrary

NATIVE = NativeLibrary(
    name="device-names",
    what="cuda as a name of the software GPU",
    folders=(Path(__file__).parent / "native",),
    flags=("-O2", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall"),
)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(NATIVE.built()))


def join() -> None:
    """Make `cuda` a name of the soft device, everywhere torch reads or writes the name of a device."""
    if not _library().neaptide_join_names():
        raise RuntimeError("cuda cannot be given soft: this torch is not built as expected (torch 2.13 on Linux is)")


def part() -> None:
    """Make `cuda` its own name again."""
    _library().neaptide_part_names()
