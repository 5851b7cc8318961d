"""The software GPU of this process, whether or not the process is a job."""

from __future__ import annotations

from contextlib import AbstractContextManager

from neaptide.devices.interface import KernelLog
from neaptide.devices.native_agent import NativeLog
from neaptide.devices.soft.extension import native


class SoftDevice:
    """A LocalDevice."""

    spec_name = "soft"

    @property
    def sms(self) -> int:
        return int(native.sms())

    def launched(self) -> int:
        return int(native.launched())

    def log_kernels(self, records: int) -> AbstractContextManager[KernelLog]:
        return NativeLog(native, measuring=False).keep(records)
