"""The software GPU of this process, whether or not the process is a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

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

    @property
    def sms(self) -> int:
        return int(native.sms())

    def launched(self) -> int:
        return int(native.launched())

    def log_kernels(self, records: int) -> AbstractContextManager[KernelLog]:
        return _logging(records)


@contextmanager
def _logging(records: int) -> Iterator[KernelLog]:
    with log_kernels(records):
        yield _KernelLog()
