"""The device starts when the program first uses it: only then does the process take a slot on a board."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

from neaptide.devices.interface import BoardFullError
from neaptide.devices.soft import settings
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.memory import set_per_process_memory_fraction

_lock = threading.RLock()  # two threads may use the device first


def started() -> bool:
    """Whether this process uses the device."""
    return bool(native.started())


def start(*, held: bool = False) -> None:
    """Take a slot and start the device; `held`: launches wait until the launch gate is opened."""
    chosen = settings.read()
    try:
        native.start(
            os.fsencode(chosen.board),  # a path need not be text
            chosen.makes_board,
            chosen.capacity,
            chosen.sms,
            chosen.width,
            chosen.job,
            chosen.wait_seconds,
            chosen.link_bandwidth,
            held,
        )
    except native.BoardFull as error:
        raise BoardFullError(str(error)) from None
    if chosen.memory_fraction < 1:
        set_per_process_memory_fraction(chosen.memory_fraction)


_starters: list[Callable[[], None]] = [start]


def start_by(starter: Callable[[], None]) -> None:
    """Have this called at the first use of the device; it calls `start`."""
    _starters[:] = [starter]


def _first_use() -> None:
    with _lock:
        if not native.started():
            _starters[0]()


native.prepare(_first_use)
# What the program registers from here on runs before: it may save a model, on the device.
atexit.register(native.stop)
os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined] # as the threading module does
