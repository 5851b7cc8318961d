"""The GPU starts when the program first uses CUDA: only then does the process take a slot on a board."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch

from neaptide.devices.cuda.extension import native
from neaptide.devices.optimizer_steps import place_apart

BoardFull: type[Exception] = native.BoardFull
_lock = threading.RLock()
_starters: list[Callable[[], None]] = []


def start_by(starter: Callable[[], None]) -> None:
    """Take the place of torch's allocator, and have this called at the first use of CUDA; it calls `start`."""
    if not _starters:
        native.prepare(_first_use)
        cast("Any", torch._C)._cuda_changeCurrentAllocator = _refuse_allocator
        atexit.register(native.stop)  # what the program registers from here on runs before, and may use the device
    _starters[:] = [starter]


def _refuse_allocator(_: object) -> None:
    raise RuntimeError(
        "neaptide: the program's own allocator cannot be used while the GPU is shared: its memory would not count "
        "against the budget"
    )


def start(board: Path, job: str, wait_seconds: float) -> None:
    """Take a slot and start the device with its launches held."""
    keeper: list[str | Path] = [sys.executable, "-P", "-m", "neaptide.devices.cuda.page_keeper", board.absolute()]
    # A path need not be text.
    native.start(os.fsencode(board), job, wait_seconds, True, [os.fsencode(word) for word in keeper], _program())
    place_apart(native.set_persistent)
    _hold_graphs()


def _program() -> int:
    """A number of the program that this process runs, where it runs it: what its libraries need is known by that."""
    folder = ""
    with suppress(OSError):
        folder = os.getcwd()
    return zlib.crc32(repr((folder, sys.orig_argv)).encode())


def _first_use() -> None:
    with _lock:
        if not native.started():
            _starters[0]()


def _hold_graphs() -> None:
    """A graph's replay is no op of torch's, so it is held here: as one op, as wide as the device."""
    replay = torch.cuda.CUDAGraph.replay

    def held(graph: torch.cuda.CUDAGraph) -> None:
        native.enter_op("cuda graph")
        try:
            replay(graph)
        finally:
            native.leave_op()

    torch.cuda.CUDAGraph.replay = held  # type: ignore[method-assign, assignment]
