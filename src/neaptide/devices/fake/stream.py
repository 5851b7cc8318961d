"""The kernels of one job: they run one after the other, and each takes the time that it was launched with."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from neaptide.core.device import find_device
from neaptide.core.rules.heavy import is_heavy
from neaptide.devices import KernelRecord
from neaptide.devices.board.port import Port

_LINK_BANDWIDTH = find_device("soft").link_bandwidth


@dataclass(slots=True)
class Kernel:
    """A launched kernel."""

    name: str
    seconds: float
    width: int  # SMs
    launch_ns: int
    needed_bytes: int  # when it was launched
    held_bytes: int  # leased, or over the link
    moved_bytes: int
    start_ns: int | None = None  # None: it has not begun
    end_ns: int = 0  # once it has begun
    held: bool = False  # it could have begun, but a gate or a deadline job held it


class Stream:
    """A queue of kernels. `advance` must be called for anything to happen."""

    def __init__(self, port: Port, now_ns: Callable[[], int], sms: int) -> None:
        self._port = port
        self._now_ns = now_ns
        self._sms = sms
        self._kernels: deque[Kernel] = deque()
        self._idle_since_ns = 0
        self.log: deque[KernelRecord] | None = None  # of the kernels that have run, while a log is kept

    @property
    def idle(self) -> bool:
        return not self._kernels

    def launch(self, name: str, seconds: float, width: int, moved_bytes: int) -> None:
        self._port.launched()
        seen = self._port.figures()
        memory = seen.needed_bytes, seen.held_bytes + seen.over_bytes
        self._kernels.append(Kernel(name, seconds, width, self._now_ns(), *memory, moved_bytes))

    def advance(self) -> int:
        """Run what can have run by now; how many kernels have ended."""
        ended = 0
        while (end_ns := self.next_end_ns()) is not None and end_ns <= self._now_ns():
            kernel = self._kernels.popleft()
            self._end(kernel, end_ns)
            ended += 1
        return ended

    def next_end_ns(self) -> int | None:
        """When the next kernel ends; None when there is none or a gate holds it. Begins it if it may begin."""
        if self.idle:
            return None
        kernel = self._kernels[0]
        if kernel.start_ns is None:
            lasts_ns, heavy = self._lasts_ns(kernel), is_heavy(kernel.width, self._sms)
            if (heavy and self._port.makes_way()) or not self._port.may_run(heavy=heavy, lasts_ns=lasts_ns):
                kernel.held = True
                return None
            # A kernel that was held begins now; another began when it was launched, or when the one before it ended.
            kernel.start_ns = self._now_ns() if kernel.held else max(kernel.launch_ns, self._idle_since_ns)
            over_ns = self._port.over_the_link_ns(kernel.moved_bytes, _LINK_BANDWIDTH)
            kernel.end_ns = kernel.start_ns + lasts_ns + math.ceil(over_ns)
        return kernel.end_ns

    def _lasts_ns(self, kernel: Kernel) -> int:
        """How long it takes now: a kernel that is wider than the job's share of the SMs takes longer."""
        return round(kernel.seconds * 1e9 * max(kernel.width / self._sms / self._port.share(), 1.0))

    def finish(self) -> None:
        """Run everything now, gates or not: the job ends."""
        while self._kernels:
            self._end(self._kernels.popleft(), self._now_ns())

    def _end(self, kernel: Kernel, end_ns: int) -> None:
        self._idle_since_ns = end_ns
        self._port.set_now(end_ns)
        self._port.passed()
        if self.log is not None:
            start_ns = end_ns if kernel.start_ns is None else kernel.start_ns
            times = kernel.launch_ns, start_ns, end_ns
            memory = kernel.needed_bytes, kernel.held_bytes
            self.log.append(KernelRecord(kernel.name, hash(kernel.name), *times, *memory, 0, 0, kernel.width))
