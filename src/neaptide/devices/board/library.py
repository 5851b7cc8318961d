"""The functions of native/api.cpp and native/port_api.cpp, and the structures that they describe."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from neaptide.native_library import RULES, NativeLibrary, Signature, structure

_HERE = Path(__file__).parent
_DEVICES = _HERE.parent
NATIVE = NativeLibrary(
    name="board",
    what="the device's board",
    folders=(
        _HERE / "native",
        _DEVICES / "native",
        _DEVICES / "native" / "launch",
        _DEVICES / "soft" / "csrc" / "sm_queue",  # a daemon takes the SMs of dead processes back
        _DEVICES / "cuda" / "csrc" / "region",  # and asks whether a GPU still has memory of one
        _DEVICES / "cuda" / "csrc" / "keeper",  # and the keeper of a GPU's pages keeps them on the board
        RULES,
    ),
    flags=("-O2", "-std=c++17", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wall", "-ldl"),
)
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
_HANDLE, _INT, _TEXT, _SECONDS = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_double
_SHARE = _NANOSECONDS = _RATE = ctypes.c_double
_SIGNATURES: dict[str, Signature] = {
    "error": (_TEXT, ()),
    "layout": (_TEXT, (_TEXT,)),
    "board_create": (_HANDLE, (_TEXT, _U64, _TEXT, _U64, _U64)),
    "board_open": (_HANDLE, (_TEXT,)),
    "board_close": (None, (_HANDLE,)),
    "board_in_use": (_INT, (_TEXT,)),
    "board_is_at_its_path": (_INT, (_HANDLE,)),
    "board_descriptor": (_INT, (_HANDLE,)),
    "board_snapshot": (_INT, (_HANDLE, _HANDLE, _HANDLE)),
    "board_slot": (_INT, (_HANDLE, _U32, _HANDLE)),
    "board_chunk_bytes": (_U64, (_HANDLE,)),
    "board_region_setting": (_U64, (_HANDLE,)),
    "board_read_counters": (_INT, (_HANDLE, _HANDLE, _HANDLE)),
    "board_reap": (_INT, (_HANDLE,)),
    "board_beat": (_INT, (_HANDLE, _U64, _U64)),
    "board_stop_beating": (_INT, (_HANDLE,)),
    "board_daemon_silent": (_INT, (_HANDLE, _U64)),
    "board_set_capacity": (_INT, (_HANDLE, _U64)),
    "board_reset_high_water": (_INT, (_HANDLE,)),
    "board_set_permit": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_gate": (_INT, (_HANDLE, _U32, _U64, _U32)),
    "board_set_deadline_class": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_share": (_INT, (_HANDLE, _U32, _U32)),
    "board_lift_controls": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_inflight_cap": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_ceiling": (_INT, (_HANDLE, _U32, _U64)),
    "board_set_limit": (_INT, (_HANDLE, _U32, _U64)),
    "board_set_oversubscribed": (_INT, (_HANDLE, _U32)),
    "board_set_lane": (_INT, (_HANDLE, _U32, _U32)),
    "board_set_lane_bytes": (_INT, (_HANDLE, _U32, _U64)),
    "board_set_request": (_INT, (_HANDLE, _U32, _U32)),
    "board_forget_expected_leases": (_INT, (_HANDLE, _U32)),
    "take_short_turns": (None, ()),
    "process_state": (_INT, (ctypes.c_int32, _U64)),
    "member_join": (_HANDLE, (_HANDLE, _TEXT)),
    "member_leave": (None, (_HANDLE,)),
    "member_mend": (None, (_HANDLE,)),
    "member_held": (_U64, (_HANDLE,)),
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
    "port_layout": (_TEXT, (_TEXT,)),
    "port_join": (_HANDLE, (_HANDLE, _TEXT)),
    "port_leave": (None, (_HANDLE,)),
    "port_slot": (_U32, (_HANDLE,)),
    "port_set_now": (None, (_HANDLE, _U64)),
    "port_set_host_memory": (None, (_HANDLE, _U32)),
    "port_try_enter": (_INT, (_HANDLE, _U32)),
    "port_exit": (None, (_HANDLE,)),
    "port_may_run": (_INT, (_HANDLE, _U32, _U64)),
    "port_makes_way": (_INT, (_HANDLE,)),
    "port_share": (_SHARE, (_HANDLE,)),
    "port_over_the_link_ns": (_NANOSECONDS, (_HANDLE, _U64, _RATE)),
    "port_launched": (None, (_HANDLE, _U64)),
    "port_passed": (_INT, (_HANDLE, _U64)),
    "port_allocate": (_INT, (_HANDLE, _U64, _U32, _HANDLE)),
    "port_free": (_INT, (_HANDLE, _U64)),
    "port_withdraw": (None, (_HANDLE,)),
    "port_arm_iteration": (None, (_HANDLE,)),
    "port_disarm_iteration": (_INT, (_HANDLE,)),
    "port_end_iteration": (_INT, (_HANDLE, _HANDLE)),
    "port_take_recent": (None, (_HANDLE, _HANDLE, _HANDLE)),
    "port_expect": (None, (_HANDLE, _HANDLE, _U64)),
    "port_hold": (None, (_HANDLE,)),
    "port_release": (None, (_HANDLE,)),
    "port_refuse": (None, (_HANDLE, _TEXT)),
    "port_serve": (_INT, (_HANDLE,)),
    "port_figures": (None, (_HANDLE, _HANDLE)),
    "port_reset_peaks": (None, (_HANDLE,)),
    "port_check": (_INT, (_HANDLE,)),
    "port_connect": (None, (_HANDLE, _INT, _U64)),
    "port_disconnect": (None, (_HANDLE,)),
    "port_forget": (None, (_HANDLE,)),
    "port_report": (_INT, (_HANDLE, _TEXT, _U64, _U32)),
    "port_report_after": (None, (_HANDLE, _TEXT, _U64)),
    "port_report_progress": (None, (_HANDLE, _TEXT, _U64)),
    "port_report_iteration": (_INT, (_HANDLE, _TEXT, _U64, _U64, _U64, _U64)),
}


@cache
def load() -> ctypes.CDLL:
    """The library; builds it first when it was not built yet."""
    return NATIVE.load(_SIGNATURES)


@cache
def structure_of(name: str) -> type[ctypes.Structure]:
    """`slot` or `board`, as devices/native/board.h declares them."""
    return structure(name, load().neaptide_layout(name.encode()))
