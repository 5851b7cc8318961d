"""The software GPU of this process, whether or not the process is a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neaptide.devices.interface import KernelLog, KernelRecord
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.kernel_log import dropped_kernels, kernel_log, log_kernels


class _KernelLog:
    """What the last `log_kernels` kept."""

    def read(self) -> Sequence[KernelRecord]:
        return kernel_log()

    def dropped(self) -> int:
        return dropped_kernels()


class SoftDevice:
    """A LocalDevice."""

    spec_name = "soft"

    def __init__(self) -> None:
        self.sms = int(native.sms())

    def launched(self) -> int:
        return int(native.launched())

    @contextmanager
    def log_kernels(self, records: int) -> Iterator[KernelLog]:
        with log_kernels(records):
            yield _KernelLog()
