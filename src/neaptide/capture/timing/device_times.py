"""Times and scratch of each op on a device that keeps a log of its kernels.

The recorder notes how many kernels each op launched, and the log says which; a run without the recorder launches nearly
the same ones. So the kernels of the two runs are aligned by name and order, and an op's time is that of its kernels.
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
from neaptide.core.traces.curve import Integers
from neaptide.devices.interface import KernelRecord, LocalDevice

RING = 1 << 20  # records; an iteration has some thousands
# From when a kernel could start until it does is the device's own time between two kernels, and part of the later one;
# if it is longer, the kernel waited for something.
LONGEST_GAP_NS = 1_000_000
# A host that launches so soon after the device's last kernel, of the time since its own last launch, has waited for it.
WAITED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class LoggedTimes:
    """Of each op: its device time, the host's time before it, its scratch, and the share of the device it fills.

    `op_of_kernel` says of each kernel of the last run which op it belongs to.
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
    complete: bool = True  # none fell out of the log
    waited_ns: list[int] | None = None  # of each: when all that was left out before it had ended
    aside_ns: list[int] | None = None  # of each: the host's time for what was left out, since the one before

    @property
    def names(self) -> list[str]:
        return [_plain(kernel.name) for kernel in self.kernels]

    def without(self, aside: Aside) -> KernelRun:
        """The same without what is not the program's."""
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
    """Work that was done beside the program's, for which the program waits: by some streams, and by the host."""

    streams: Collection[int] = ()
    ends_ns: list[int] = field(default_factory=list)  # of the host's spans, in order, by its monotonic clock
    total_ns: list[int] = field(default_factory=lambda: [0])  # of the spans until then; one more than there are ends

    @contextmanager
    def span(self) -> Iterator[None]:
        """The host is busy with it."""
        began_ns = monotonic_ns()
        try:
            yield
        finally:
            self.ends_ns.append(monotonic_ns())
            self.total_ns.append(self.total_ns[-1] + self.ends_ns[-1] - began_ns)

    def busy_ns(self, after_ns: int, until_ns: int) -> int:
        """How long, in the spans that ended in between."""
        first, last = bisect_right(self.ends_ns, after_ns), bisect_right(self.ends_ns, until_ns)
        return self.total_ns[last] - self.total_ns[first]


@contextmanager
def logged(device: LocalDevice) -> Iterator[KernelRun]:
    """Log the kernels launched inside; the run has them when it ends."""
    run = KernelRun()
    with device.log_kernels(RING) as log:
        yield run
    run.kernels = sorted(log.read(), key=lambda kernel: kernel.launch_ns)
    run.complete = log.dropped() == 0


def times_from(
    recorded: Sequence[str], op_of_kernel: Sequence[int], ops: int, runs: Sequence[KernelRun], sms: int
) -> LoggedTimes | None:
    """What the runs say of each of `ops` ops.

    `recorded` names the kernels of the recorded iteration, `op_of_kernel` says which op launched each. None if there is
    no run. An op whose kernels are in no run (only the recorder made the framework launch them) takes no time.
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
    """The median of each op, all of them brought to the median of the runs' sums.

    What disturbs an op now and then disturbs some ops in every run, and the medians of all would know nothing of it.
    """
    found = np.median(runs, axis=0)
    total = found.sum()
    return found * (np.median(np.sum(runs, axis=1)) / total) if total > 0 else found


def _aligned(recorded: Sequence[str], op_of_kernel: Sequence[int], run: KernelRun) -> Integers:
    """Of each kernel of a run, the op that it belongs to."""
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
    ended: dict[int, int] = {}  # the kernel before, of each stream
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
    """The host's own time between two launches: without its wait, if it waited until the device had nothing to do.

    As it does for a copy of its memory. Then the device was busy for nearly all of the time.
    """
    since_ns = launch_ns - idle_from_ns
    waited = before_ns < idle_from_ns and 0 <= since_ns < (launch_ns - before_ns) * WAITED_SHARE
    return since_ns if waited else launch_ns - before_ns


def _plain(name: str) -> str:
    """Without overload and without the mark of an in-place variant: the recorder changes which one is used."""
    return name.split(".")[0].removesuffix("_").removesuffix("_out")
