"""The device's memory as this process sees it. `allocated` is what live blocks need, `reserved` what is leased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from neaptide.devices.board.figures import NO_CEILING
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.one_device import Device, check_device

_fraction = [1.0]


class MemorySample(NamedTuple):
    """Bytes needed and held after one change."""

    time_ns: int
    needed: int
    held: int


def memory_allocated(device: Device = None) -> int:
    """Bytes in live blocks."""
    check_device(device)
    return int(native.memory()["needed"])


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes in live blocks since the start or the last reset."""
    check_device(device)
    return int(native.memory()["needed_peak"])


def memory_reserved(device: Device = None) -> int:
    """Bytes leased from the board."""
    check_device(device)
    return int(native.memory()["held"])


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes leased since the start or the last reset."""
    check_device(device)
    return int(native.memory()["held_peak"])


def held_and_needed() -> tuple[int, int]:
    """Bytes leased and bytes in live blocks, now."""
    memory = native.memory()
    return int(memory["held"]), int(memory["needed"])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes free on the board, and its capacity."""
    check_device(device)
    used, _, capacity = native.board_memory()
    return max(0, capacity - used), capacity


def memory_stats(device: Device = None) -> dict[str, int]:
    """Every counter of the arena, under torch.cuda's names where it has them."""
    check_device(device)
    memory: dict[str, int] = dict(native.memory())
    return {
        "allocated_bytes.all.current": memory["needed"],
        "allocated_bytes.all.peak": memory["needed_peak"],
        "allocated_bytes.all.allocated": memory["needed_total"],
        "reserved_bytes.all.current": memory["held"],
        "reserved_bytes.all.peak": memory["held_peak"],
        "allocation.all.current": memory["live_blocks"],
        "num_alloc_retries": memory["lease_waits"],
        "num_ooms": memory["out_of_memory"],
        **memory,
    }


def reset_peak_memory_stats(device: Device = None) -> None:
    """Start the peaks again from what is needed and held now."""
    check_device(device)
    native.reset_peaks()


def empty_cache() -> None:
    """Wait for the streams and give every empty chunk back."""
    native.empty_cache()


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Let this process lease at most this share of the device; beyond it, an allocation is out of memory."""
    check_device(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    native.set_own_limit(int(fraction * native.board_memory()[2]) if fraction < 1 else NO_CEILING)
    _fraction[:] = [fraction]


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share of the device that this process may lease."""
    check_device(device)
    return _fraction[0]


@contextmanager
def record_memory_series(samples: int = 1 << 20) -> Iterator[list[MemorySample]]:
    """Keep the changes of needed and held bytes inside the context; the list is filled when it ends."""
    kept: list[MemorySample] = []
    native.record_series(samples)
    try:
        yield kept
        native.synchronize()
    finally:
        kept.extend(MemorySample(*sample) for sample in native.series())
        native.record_series(0)


def set_reuse_at_launch(reuse: bool) -> None:
    """Choose whether a later launch on the same stream may reuse a freed block at once, which is the default.

    Without it a block is free when its stream has passed its last use, and launching ahead costs memory.
    """
    native.set_reuse_at_launch(reuse)


@contextmanager
def persistent_memory() -> Iterator[None]:
    """Place blocks allocated inside the context with what outlives the iteration."""
    before = native.persistent()
    native.set_persistent(True)
    try:
        yield
    finally:
        native.set_persistent(before)


def evict(seconds: float = 60) -> int:
    """Copy this process's memory to the host and give it back; launches wait until `restore`. Returns bytes."""
    return int(native.evict(seconds))


def restore(seconds: float = 60) -> None:
    """Bring evicted memory back at the same addresses and let launches go on."""
    if not native.restore(seconds):
        raise TimeoutError(f"no memory to restore into within {seconds:g} s")
