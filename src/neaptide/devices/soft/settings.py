"""The device's settings, read from the environment once."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.device import find_device
from neaptide.core.units import parse_bytes
from neaptide.devices.soft.kind import KIND, parse_link


@dataclass(frozen=True, slots=True)
class Settings:
    """The board, what a new board has, and how this process uses it."""

    board: str
    makes_board: bool  # when there is none; the board of a daemon is made by the daemon alone
    capacity: int
    sms: int
    width: int
    """Most SMs a kernel of this process uses; 0 means all that the board has."""
    job: str
    wait_seconds: float
    link_bandwidth: float  # to host memory, bytes per second


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, not {text!r}") from None
    if value < 0:
        raise ValueError(f"{name} must not be negative, but is {text}")
    return value


def _private_board() -> str:
    """The path of a board for this process alone; its folder is removed at exit."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = tempfile.mkdtemp(prefix="neaptide-", dir=base if base and os.access(base, os.W_OK) else None)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return str(Path(folder) / "board")


def _capacity() -> int:
    text = os.environ.get("NEAPTIDE_SOFT_CAPACITY")
    if not text:
        return KIND.default_budget_bytes()
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ValueError(f"NEAPTIDE_SOFT_CAPACITY: {error}") from None


def _link_bandwidth() -> float:
    text = os.environ.get("NEAPTIDE_SOFT_LINK")
    if not text:
        return find_device("soft").link_bandwidth
    try:
        return parse_link(text)
    except ValueError as error:
        raise ValueError(f"NEAPTIDE_SOFT_LINK: {error}") from None


def read() -> Settings:
    """Read NEAPTIDE_SOFT_BOARD, _NEW_BOARD, _CAPACITY, _SMS, _WAIT (seconds), _LINK (per second) and NEAPTIDE_JOB."""
    cores = len(os.sched_getaffinity(0))
    sms = int(_number("NEAPTIDE_SOFT_SMS", 0))
    board = os.environ.get("NEAPTIDE_SOFT_BOARD")
    job = os.environ.get("NEAPTIDE_JOB") or Path(sys.argv[0] if sys.argv else "").name or "python"
    if board and os.environ.get("NEAPTIDE_SOFT_NEW_BOARD") != "0":
        with contextlib.suppress(OSError):
            Path(board).parent.mkdir(parents=True, exist_ok=True)
    return Settings(
        board=board or _private_board(),
        makes_board=not board or os.environ.get("NEAPTIDE_SOFT_NEW_BOARD") != "0",
        capacity=_capacity(),
        # A shared board has all SMs of the machine; NEAPTIDE_SOFT_SMS narrows this process alone.
        sms=max(1, cores if board else (sms or cores)),
        width=sms,
        job=job,
        wait_seconds=_number("NEAPTIDE_SOFT_WAIT", 60),
        link_bandwidth=_link_bandwidth(),
    )
