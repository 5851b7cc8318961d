"""The keeper's side of the pages on a board; csrc/keeper/keeper_api.cpp says what each call does."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from neaptide.devices.board import Board
from neaptide.devices.board.board import BoardError, last_error
from neaptide.devices.board.library import load

_HANDLE, _INT, _U32 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "set_isolate": (None, (_HANDLE,)),
    "keeper": (ctypes.c_int32, (_HANDLE,)),
    "begin": (_INT, (_HANDLE,)),
    "announce": (_INT, (_HANDLE,)),
    "settle": (None, (_HANDLE, _U32, _U32)),
    "retire": (_INT, (_HANDLE, _U32)),
    "take_unheld": (_INT, (_HANDLE, _HANDLE, _U32)),
    "count": (None, (_HANDLE, _HANDLE)),
    "allowances": (ctypes.c_uint64, (_HANDLE,)),
}
_MOST_AT_ONCE = 1024


@cache
def _library() -> ctypes.CDLL:
    library = load()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, f"neaptide_pages_{name}")
        function.restype, function.argtypes = result, arguments
    return library


@dataclass(frozen=True, slots=True)
class PageCounts:
    """How many pages there are, and of those, free ones and ones that are taken apart."""

    there: int
    free: int
    retiring: int


class PageTable:
    """The pages of a CUDA device's board."""

    def __init__(self, board: Board) -> None:
        self._library, self._handle = _library(), board.handle
        self._pages = (_U32 * _MOST_AT_ONCE)()

    @property
    def keeper_pid(self) -> int:
        """The process that makes pages, or the last one that did; 0: there was none."""
        return int(self._library.neaptide_pages_keeper(self._handle))

    def counts(self) -> PageCounts:
        """Changes nothing."""
        seen = (_U32 * 3)()
        self._library.neaptide_pages_count(self._handle, seen)
        return PageCounts(*seen)

    @property
    def allowance_bytes(self) -> int:
        """What is kept for memory of processes that is in no page: contexts, libraries."""
        return int(self._library.neaptide_pages_allowances(self._handle))

    def set_isolate(self) -> None:
        """Pages are unmapped when they are given back, and zeroed when they are taken. Before the first job."""
        self._library.neaptide_pages_set_isolate(self._handle)

    def begin(self) -> bool:
        """Make this process the keeper; False while the device still has memory of the last one."""
        begun = int(self._library.neaptide_pages_begin(self._handle))
        if begun < 0:
            raise BoardError(last_error())
        return begun == 1

    def announce(self) -> int | None:
        """The place of a page that is about to be made; None when the budget has no room for it."""
        page = int(self._library.neaptide_pages_announce(self._handle))
        return page if page >= 0 else None

    def settle(self, page: int, *, there: bool) -> None:
        """An announced page is there or could not be made, or a page that was taken is gone."""
        self._library.neaptide_pages_settle(self._handle, page, there)

    def retire(self, *, everything: bool = False) -> int:
        """Retire free pages that are an earlier keeper's or beyond the budget, or all; how many."""
        return int(self._library.neaptide_pages_retire(self._handle, everything))

    def take_unheld(self) -> list[int]:
        """Take the retiring pages that no process has a handle of; `settle` says that they are gone."""
        count = self._library.neaptide_pages_take_unheld(self._handle, self._pages, _MOST_AT_ONCE)
        return list(self._pages[:count])
