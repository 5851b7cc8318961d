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
from neaptide.devices.soft.kind import KIND, MOST_SMS, parse_link

_MOST_WAIT_SECONDS = 2**33


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
    memory_fraction: float
    """Most that this process may lease, as a share of the device; a program may say something else later."""
    link_bandwidth: float  # to host memory, bytes per second


def _number(name: str, default: float, most: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, not {text!r}") from None
    if not 0 <= value <= most:
        raise ValueError(f"{name} must be between 0 and {most:g}, not {text}")
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


def memory_fraction_in(allocator_settings: str) -> float | None:
    """The limit in settings of torch's allocator, such as `per_process_memory_fraction:0.5`; None without one."""
    named = [word.partition(":") for word in allocator_settings.replace(" ", "").split(",")]
    values = [value for name, _, value in named if name == "per_process_memory_fraction"]
    if not values:
        return None
    try:
        fraction = float(values[-1])
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise ValueError(f"per_process_memory_fraction must be between 0 and 1, not {values[-1]!r}")
    return fraction


def _memory_fraction() -> float:
    """As torch reads it on CUDA: the first of these variables that is set counts."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if name in os.environ:
            try:
                fraction = memory_fraction_in(os.environ[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            return 1.0 if fraction is None else fraction
    return 1.0


def read() -> Settings:
    """Read NEAPTIDE_SOFT_BOARD, _NEW_BOARD, _CAPACITY, _SMS, _WAIT (seconds), _LINK (per second), NEAPTIDE_JOB and
    PYTORCH_CUDA_ALLOC_CONF.
    """
    cores = len(os.sched_getaffinity(0))
    sms = int(_number("NEAPTIDE_SOFT_SMS", 0, MOST_SMS))
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
        wait_seconds=_number("NEAPTIDE_SOFT_WAIT", 60, _MOST_WAIT_SECONDS),
        memory_fraction=_memory_fraction(),
        link_bandwidth=_link_bandwidth(),
    )
