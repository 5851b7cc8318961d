"""A log of the kernels that ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from neaptide.devices.interface import KernelRecord
from neaptide.devices.soft.extension import native


@contextmanager
def log_kernels(records: int = 1 << 16) -> Iterator[None]:
    """Keep records of the last `records` kernels launched inside the context."""
    native.start_log(records)
    try:
        yield
    finally:
        native.stop_log()


def dropped_kernels() -> int:
    """How many kernels the last `log_kernels` had no room for."""
    return int(native.dropped_records())


def kernel_log() -> list[KernelRecord]:
    """The records kept by the last `log_kernels`, in the order in which the kernels began."""
    return [KernelRecord(*record) for record in native.kernel_log()]
