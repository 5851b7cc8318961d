"""The functions and structures of native/api.cpp."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from neaptide.native_library import RULES, NativeLibrary

_HERE = Path(__file__).parent
_WITHOUT = (
    *("arena.cpp", "arena_allocation.cpp", "arena_eviction.cpp", "arena_return.cpp", "arena.h"),
    *("arena_implementation.h", "block.h", "heap.cpp", "heap.h", "heap_check.cpp", "heap_chunks.cpp"),
    *("host_buffer.h", "host_driver.cpp", "host_driver.h", "series.h", "sm_lane.cpp", "sm_lane.h"),
)
NATIVE = NativeLibrary(
    name="board",
    what="the device's board",
    folders=(_HERE / "native", _HERE.parent / "native", RULES),
    flags=("-O2", "-std=c++17", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wall"),
    leave_out=frozenset(_WITHOUT),
)
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class NativeSlot(ctypes.Structure):
    """SlotFigures in native/api.cpp."""

    _fields_ = (
        *((name, _U64) for name in ("start_time", "iteration", "age", "launched", "done", "held", "needed", "wanted")),
        ("ceiling", _U64),
        ("pid", ctypes.c_int32),
        *((name, _U32) for name in ("slot", "state", "request", "permit", "heavy_open", "inflight_cap", "sm_tokens")),
        ("job", ctypes.c_char * 64),
    )


class NativeBoard(ctypes.Structure):
    """BoardFigures in native/api.cpp."""

    _fields_ = (
        *((name, _U64) for name in ("capacity", "used", "high_water")),
        *((name, _U32) for name in ("sms", "sm_tokens", "consistent", "slots")),
    )


class NativeProgress(ctypes.Structure):
    """Progress in native/api.cpp."""

    _fields_ = (
        *((name, _U64) for name in ("iteration", "age", "launched", "done", "held", "wanted")),
        *((name, _U32) for name in ("state", "request", "permit", "taken")),
        ("pid", ctypes.c_int32),
    )


_HANDLE, _INT, _TEXT, _SECONDS = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_double
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "error": (_TEXT, ()),
    "board_create": (_HANDLE, (_TEXT, _U64, _U32)),
    "board_open": (_HANDLE, (_TEXT,)),
    "board_close": (None, (_HANDLE,)),
    "board_snapshot": (_INT, (_HANDLE, _HANDLE, _HANDLE)),
    "board_progress": (_INT, (_HANDLE, _U32, _HANDLE)),
    "board_glance": (_INT, (_HANDLE, _HANDLE, _HANDLE)),
    "board_reap": (_INT, (_HANDLE,)),
    "board_set_capacity": (_INT, (_HANDLE, _U64)),
    "board_reset_high_water": (_INT, (_HANDLE,)),
    "board_set_permit": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_heavy_open": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_inflight_cap": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_ceiling": (_INT, (_HANDLE, _U32, _U64)),
    "board_set_request": (_INT, (_HANDLE, _U32, _U32)),
    "board_forget_foreseen": (_INT, (_HANDLE, _U32)),
    "take_short_turns": (None, ()),
    "process_state": (_INT, (ctypes.c_int32, _U64)),
    "member_join": (_HANDLE, (_HANDLE, _TEXT)),
    "member_leave": (None, (_HANDLE,)),
    "member_slot": (_U32, (_HANDLE,)),
    "member_take": (_INT, (_HANDLE, _U64, _SECONDS)),
    "member_give": (_INT, (_HANDLE, _U64)),
    "member_begin_iteration": (_U64, (_HANDLE,)),
    "member_end_iteration": (None, (_HANDLE,)),
    "member_wait_permit": (_INT, (_HANDLE, _U64, _SECONDS)),
    "member_set_state": (None, (_HANDLE, _U32)),
    "member_count": (None, (_HANDLE, _U64, _U64)),
    "member_request": (_U32, (_HANDLE,)),
    "member_finish_request": (_INT, (_HANDLE, _U32)),
}


@cache
def load() -> ctypes.CDLL:
    """The library; builds it first when it was not built yet."""
    library = ctypes.CDLL(str(NATIVE.built()))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, f"neaptide_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
