"""The engine's C++ part: how it is built, and its functions and structures."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache
from pathlib import Path

from neaptide.native_library import LAYOUT, RULES, NativeLibrary, Signature, structure

NATIVE = NativeLibrary(
    name="simulation",
    what="the simulator",
    folders=(Path(__file__).parent / "native", RULES),
    # No fused multiply-add: the reference in Python must give the same bits.
    headers=(LAYOUT,),
    flags=("-O3", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-Wall"),
)


class EventKind(IntEnum):
    """The events that the native engine reports; see native/engine.h."""

    NOTHING = 0
    PHASE_ENDED = 1
    ITERATION_ENDED = 2
    STALLED = 3
    EVICTED = 4
    SUSPENDED = 5
    RESUMED = 6
    FAILED = 7
    STUCK = 8


_HANDLE, _INT, _LONG, _POINTER = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_TEXT = ctypes.c_char_p
_SIGNATURES: dict[str, Signature] = {
    "layout": (_TEXT, (_TEXT,)),
    "create": (_HANDLE, (_POINTER, _POINTER)),
    "destroy": (None, (_HANDLE,)),
    "add_job": (_INT, (_HANDLE,)),
    "add_plan": (None, (_HANDLE, _INT, _POINTER)),
    "advance": (None, (_HANDLE, _LONG, _POINTER)),
    "set_budget": (None, (_HANDLE, _LONG, _LONG)),
    "admit": (None, (_HANDLE, _INT, _LONG)),
    "start": (None, (_HANDLE, _INT)),
    "set_plan": (None, (_HANDLE, _INT, _INT)),
    "set_limit": (None, (_HANDLE, _INT, _LONG)),
    "set_gate": (None, (_HANDLE, _INT, _LONG, _INT)),
    "set_class": (None, (_HANDLE, _INT, _INT)),
    "set_share": (None, (_HANDLE, _INT, ctypes.c_double)),
    "cap": (None, (_HANDLE, _INT, _LONG)),
    "set_lane": (None, (_HANDLE, _INT, _INT)),
    "size_lane": (None, (_HANDLE, _INT, _LONG)),
    "suspend": (None, (_HANDLE, _INT)),
    "resume": (None, (_HANDLE, _INT)),
    "end": (None, (_HANDLE, _INT)),
    "evict": (None, (_HANDLE, _INT)),
    "give_up": (_INT, (_HANDLE, _INT)),
    "observe": (None, (_HANDLE, _POINTER, _POINTER)),
    "holders": (None, (_HANDLE, _POINTER, _POINTER, _POINTER, _POINTER)),
    "op_events": (_LONG, (_HANDLE,)),
    "peak": (_LONG, (_HANDLE,)),
    "over": (_LONG, (_HANDLE,)),
    "series_length": (_LONG, (_HANDLE, _INT)),
    "series": (None, (_HANDLE, _INT, _POINTER, _POINTER)),
    "rates": (None, (_POINTER, _LONG, _POINTER, _POINTER)),
}


@cache
def load() -> ctypes.CDLL:
    """The functions of native/api.cpp; builds the library first when it was not built yet."""
    return NATIVE.load(_SIGNATURES)


@cache
def structure_of(name: str) -> type[ctypes.Structure]:
    """`plan`, `event`, `setting` or `contention`, as the headers in native/ declare them."""
    return structure(name, load().neaptide_layout(name.encode()))
