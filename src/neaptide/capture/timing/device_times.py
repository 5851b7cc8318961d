"""Times and scratch of each op, from the device's log of its kernels.

The recorder counts the kernels that each op launches, and the log names them. A run without the recorder launches
nearly the same kernels, so the kernels of both runs are aligned by name and order. An op's time is that of its kernels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from time import monotonic_ns

import numpy as np

from neaptide.capture.recording.cutting import Floats
from neaptide.core.traces.columns import Integers
from neaptide.devices.interface import KernelRecord, LocalDevice

RING = 1 << 20  # records; an iteration has some thousands
# The time between the moment when a kernel could start and its start counts as the kernel's; if it is longer than this,
# the kernel waited for something.
LONGEST_GAP_NS = 1_000_000
# The host waited for the device if it launches within this share of its time between two launches after the device's
# last kernel has ended.
WAITED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class LoggedTimes:
    """For each op: its device time, the host time before it, its scratch, and the share of the device that it fills.

    `op_of_kernel` gives the op of each kernel of the last run.
    """

    op_of_kernel: Integers
    seconds: Floats
    host_seconds: Floats
    scratch_bytes: Integers
    fill: Floats


@dataclass(slots=True)
class KernelRun:
    """The kernels of one run, in the order of their launches."""

    kernels: list[KernelRecord] = field(default_factory=list)
    complete: bool = True  # the log dropped none
    waited_ns: list[int] | None = None  # for each kernel: when all omitted kernels before it had ended
    aside_ns: list[int] | None = None  # for each kernel: the host time for omitted work since the one before

    @property
    def names(self) -> list[str]:
        return [_plain(kernel.name) for kernel in self.kernels]

    def without(self, aside: Aside) -> KernelRun:
        """The run without the kernels that are not the program's."""
        kernels, waited_ns, aside_ns = [], [], []
        last_ns, before_ns = 0, 0
        for kernel in self.kernels:
            if kernel.stream in aside.streams:
                last_ns = max(last_ns, kernel.end_ns)
                continue
            kernels.append(kernel)
            waited_ns.append(last_ns)
            aside_ns.append(aside.busy_ns(before_ns, kernel.launch_ns) if before_ns else 0)
            before_ns = kernel.launch_ns
        return KernelRun(kernels, self.complete, waited_ns, aside_ns)


@dataclass(slots=True)
class Aside:
    """Work that is not the program's but for which the program waits, on some streams and on the host."""

    streams: Collection[int] = ()
    ends_ns: list[int] = field(default_factory=list)  # ends of the host's spans, in order, on its monotonic clock
    total_ns: list[int] = field(default_factory=lambda: [0])  # length of all spans before each end, and of all

    @contextmanager
    def span(self) -> Iterator[None]:
        """Note that the host does this work inside."""
        began_ns = monotonic_ns()
        try:
            yield
        finally:
            self.ends_ns.append(monotonic_ns())
            self.total_ns.append(self.total_ns[-1] + self.ends_ns[-1] - began_ns)

    def busy_ns(self, after_ns: int, until_ns: int) -> int:
        """The length of the spans that ended between two times."""
        first, last = bisect_right(self.ends_ns, after_ns), bisect_right(self.ends_ns, until_ns)
        return self.total_ns[last] - self.total_ns[first]


@contextmanager
def logged(device: LocalDevice) -> Iterator[KernelRun]:
    """Log the kernels launched inside; the run holds them after the end of the context."""
    run = KernelRun()
    with device.log_kernels(RING) as log:
        yield run
    run.kernels = sorted(log.read(), key=lambda kernel: kernel.launch_ns)
    run.complete = log.dropped() == 0


def times_from(
    recorded: Sequence[str], op_of_kernel: Sequence[int], ops: int, runs: Sequence[KernelRun], sms: int
) -> LoggedTimes | None:
    """The times of each of `ops` ops, from runs without the recorder; None without a complete run.

    `recorded` names the kernels of the recorded iteration, and `op_of_kernel` gives the op of each. An op whose kernels
    are in no run (the framework launches them only under the recorder) takes no time.
    """
    usable = [run for run in runs if run.complete and run.kernels]
    if not usable:
        return None
    op_at = [_aligned(recorded, op_of_kernel, run) for run in usable]
    rows = [_seen(run, at, ops, sms) for run, at in zip(usable, op_at, strict=True)]
    seconds, host_seconds, scratch, fill = zip(*rows, strict=True)
    return LoggedTimes(
        op_of_kernel=op_at[-1],
        seconds=_typical(seconds),
        host_seconds=_typical(host_seconds),
        scratch_bytes=np.median(scratch, axis=0).astype(np.int64),
        fill=np.median(fill, axis=0),
    )


def _typical(runs: Sequence[Floats]) -> Floats:
    """The median of each op, scaled so that their sum is the median of the runs' sums.

    Disturbances hit some ops in every run. The medians of single ops hide them; the sums do not.
    """
    found = np.median(runs, axis=0)
    total = found.sum()
    return found * (np.median(np.sum(runs, axis=1)) / total) if total > 0 else found


def _aligned(recorded: Sequence[str], op_of_kernel: Sequence[int], run: KernelRun) -> Integers:
    """The op of each kernel of a run."""
    matcher = SequenceMatcher(None, recorded, run.names, autojunk=False)
    op_at = np.full(len(run.kernels), -1)
    for kind, first, last, run_first, run_last in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and last - first == run_last - run_first):
            op_at[run_first:run_last] = op_of_kernel[first:last]
    # A kernel that only this run has belongs to the op before it.
    return np.maximum(np.maximum.accumulate(op_at), 0)


def _seen(run: KernelRun, op_at: Integers, ops: int, sms: int) -> tuple[Floats, Floats, Floats, Floats]:
    seconds, host_seconds, scratch, fill = np.zeros((4, ops))
    launched_before = run.kernels[0].launch_ns
    ended: dict[int, int] = {}  # the end of the last kernel of each stream
    idle_from_ns = 0  # when all kernels before had ended
    nothing = [0] * len(run.kernels)
    waited_ns, aside_ns = run.waited_ns or nothing, run.aside_ns or nothing
    for kernel, op, waited, aside in zip(run.kernels, op_at.tolist(), waited_ns, aside_ns, strict=True):
        free_ns = max(kernel.launch_ns, ended.get(kernel.stream, 0), waited)
        ended[kernel.stream] = kernel.end_ns
        late = 0 <= kernel.start_ns - free_ns < LONGEST_GAP_NS
        length = (kernel.end_ns - (free_ns if late else kernel.start_ns)) * 1e-9
        seconds[op] += length
        own_ns = _host_ns(launched_before, kernel.launch_ns, idle_from_ns) - aside
        host_seconds[op] += max(own_ns, 0) * 1e-9
        launched_before, idle_from_ns = kernel.launch_ns, max(idle_from_ns, kernel.end_ns)
        scratch[op] = max(scratch[op], kernel.scratch_bytes)
        fill[op] += length * kernel.width / sms
    fill = np.divide(fill, seconds, out=np.zeros(ops), where=seconds > 0)
    return seconds, host_seconds, scratch, fill


def _host_ns(before_ns: int, launch_ns: int, idle_from_ns: int) -> int:
    """The host's own time between two launches, less its wait if it waited until the device was idle.

    The host waits so for a copy to its memory; then the device was busy for nearly all of the time.
    """
    since_ns = launch_ns - idle_from_ns
    waited = before_ns < idle_from_ns and 0 <= since_ns < (launch_ns - before_ns) * WAITED_SHARE
    return since_ns if waited else launch_ns - before_ns


def _plain(name: str) -> str:
    """The name without overload and in-place suffix: under the recorder the framework may use another variant."""
    return name.split(".")[0].removesuffix("_").removesuffix("_out")
