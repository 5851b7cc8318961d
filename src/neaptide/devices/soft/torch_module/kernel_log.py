"""A log of the kernels that ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from neaptide.devices.interface import KernelRecord
from neaptide.devices.native_agent import NativeLog
from neaptide.devices.soft.extension import native

_LOG = NativeLog(native, measuring=False)


@contextmanager
def log_kernels(records: int = 1 << 16) -> Iterator[None]:
    """Keep records of the last `records` kernels launched inside the context."""
    with _LOG.keep(records):
        yield


def dropped_kernels() -> int:
    """How many kernels the last `log_kernels` had no room for."""
    return _LOG.dropped()


def kernel_log() -> list[KernelRecord]:
    """The records kept by the last `log_kernels`, in the order in which the kernels began."""
    return _LOG.read()
