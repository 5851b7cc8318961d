"""The light record of every kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from neaptide.devices.soft.extension import native


class KernelRecord(NamedTuple):
    """One kernel: what it was, when it was launched, began and ended, and memory moved since the launch before."""

    name: str
    signature: int
    launch_ns: int
    start_ns: int
    end_ns: int
    taken_bytes: int
    given_bytes: int
    scratch_bytes: int
    stream: int
    width: int


@contextmanager
def log_kernels(records: int = 1 << 16) -> Iterator[None]:
    """Keep a record of the last so many kernels launched inside the context."""
    native.start_log(records)
    try:
        yield
    finally:
        native.stop_log()


def dropped_kernels() -> int:
    """How many kernels fell out of the ring of the last `log_kernels`."""
    return int(native.dropped_records())


def kernel_log() -> list[KernelRecord]:
    """The records kept by the last `log_kernels`, in the order the kernels began."""
    return [KernelRecord(*record) for record in native.kernel_log()]
