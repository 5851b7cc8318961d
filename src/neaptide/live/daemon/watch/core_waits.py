"""How long the threads of a process could run and had no core, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

CoreWaits = Callable[[int], dict[int, int]]  # of the process with this pid: by thread, in ns since it began


def core_waits(pid: int) -> dict[int, int]:
    """Empty where the kernel does not count it, or when the process is gone."""
    waits: dict[int, int] = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError, ValueError):  # the thread may end at any time
                waits[int(thread.name)] = int((thread / "schedstat").read_bytes().split()[1])
    return waits


def longest_wait_ns(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    """How long the thread that waited longest has waited in between."""
    return max((wait_ns - before[thread] for thread, wait_ns in now.items() if thread in before), default=0)
