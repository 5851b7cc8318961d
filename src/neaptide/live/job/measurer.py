"""Measures a job's iterations while it runs them: a few begin and end while the device keeps a log of its kernels.

Nothing is put on the program's own stacks, and no result changes. What a kernel takes and when does not depend on other
jobs, so a job is measured beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic_ns
from typing import Protocol

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.leases import LeaseOverhead
from neaptide.core.traces.trace import Trace
from neaptide.devices.interface import DeviceAgent, KernelLog, KernelRecord
from neaptide.live.job.kernel_trace import JobOrigin, LoggedIteration, trace_of

_SETTLING = 1  # iterations: the first one allocates the memory that outlives iterations
_LOGGED = 3
_LONG_NS = 4_000_000_000  # fewer are enough if they take this long together
_RECORDS = 1 << 18
_NO_OVERHEAD = LeaseOverhead()
# For this many calls, a program that calls its model with gradients on is assumed to be training and about to step.
_CALLS_BEFORE_A_STEP = 32


@dataclass(frozen=True, slots=True)
class Measured:
    """A job's iteration, as it was measured."""

    trace: Trace
    iterations: int  # begun until the trace was complete, measured or not, without evaluations
    op_of_kernel: Integers | None = None  # for each kernel that an iteration launches, the op that it belongs to
    overhead: LeaseOverhead = _NO_OVERHEAD
    seconds: float = 0.0  # since the first of these iterations began


class Measurer(Protocol):
    """Sees every iteration begin, until it has a trace. One call at a time, between the program's launches."""

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:
        """An iteration begins. Returns the measurement once it is complete; `name` then gives the trace's name."""

    def end_forward(self) -> None:
        """The iteration's forward pass was launched."""

    def change(self) -> None:
        """Another optimizer now closes iterations: drop what was measured and start again with the next iteration.

        Everything before that is counted as one iteration.
        """


@dataclass(slots=True)
class _Marks:
    """Where an iteration begins, in kernels launched by the process, and what the process needed and leased then."""

    begin: int
    needed_bytes: int
    held_bytes: int  # leased, or over the link
    framework_bytes: int  # of both, in no tensor of the program
    forward: int | None = None  # where its forward pass ends
    end: int | None = None


class KernelMeasurer:
    """A Measurer over the device's log of its kernels."""

    def __init__(self, agent: DeviceAgent) -> None:
        self._agent = agent
        self._logging = ExitStack()
        self._log: KernelLog | None = None
        self._log_begin = 0  # kernels launched before
        self._began_ns = 0
        self._first_ns = 0  # when the first iteration began, measured or not
        self._marks: list[_Marks] = []
        self._settling = _SETTLING
        self._untrained = 0
        self._begun = 0  # iterations, measured or not, without evaluations
        self._serving = False

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:
        self._first_ns = self._first_ns or monotonic_ns()
        self._end_marks()
        if serving and trained:  # an evaluation comes in between
            return None
        if not serving and not trained:
            self._untrained += 1
            if self._untrained <= _CALLS_BEFORE_A_STEP:
                self._begun += 1
                return None
        if self._enough():
            measured = self._measured(name())
            self._start_again()
            if measured is not None:
                return measured
        self._begun += 1
        self._serving = serving
        if self._settling:
            self._settling -= 1
        else:
            self._begin_marks()
        return None

    def end_forward(self) -> None:
        if self._marks and self._marks[-1].end is None:
            self._marks[-1].forward = self._agent.launched()

    def change(self) -> None:
        self._start_again()
        self._begun = 1

    def _start_again(self) -> None:
        self._logging.close()
        self._log, self._marks, self._settling = None, [], _SETTLING

    def _enough(self) -> bool:
        done = len(self._marks)
        launched = self._agent.launched() - self._log_begin
        return done >= _LOGGED or (
            done > 0 and (monotonic_ns() - self._began_ns > _LONG_NS or launched > _RECORDS // 2)
        )

    def _begin_marks(self) -> None:
        if self._log is None:
            self._log = self._logging.enter_context(self._agent.log_kernels(_RECORDS))
            self._log_begin, self._began_ns = self._agent.launched(), monotonic_ns()
        memory = self._agent.memory()
        held_bytes = memory.held_bytes + memory.over_bytes
        self._marks.append(_Marks(self._agent.launched(), memory.needed_bytes, held_bytes, memory.outside_bytes))

    def _end_marks(self) -> None:
        if self._marks and self._marks[-1].end is None:
            self._marks[-1].end = self._agent.launched()

    def _measured(self, name: str) -> Measured | None:
        """What the log says; None when no whole iteration is in it."""
        assert self._log is not None
        self._logging.close()  # every kernel launched before is in the log now
        kernels = sorted(self._log.read(), key=lambda kernel: kernel.launch_ns)
        first = self._log_begin + self._log.dropped()
        iterations = [each for marks in self._marks if (each := _iteration(kernels, first, marks))]
        if not iterations:
            return None
        where = JobOrigin(name, self._agent.spec_name, self._agent.sms, self._serving)
        trace, op_of_kernel = trace_of(iterations, where)
        seconds = (monotonic_ns() - self._first_ns) / 1e9
        return Measured(trace, self._begun, op_of_kernel, self._overhead(iterations), seconds)

    def _overhead(self, iterations: list[LoggedIteration]) -> LeaseOverhead:
        kernels = [kernel for each in iterations for kernel in each.kernels]
        needed_bytes = max(kernel.needed_bytes + kernel.scratch_bytes for kernel in kernels)
        return LeaseOverhead(
            peak_bytes=max(max(kernel.held_bytes for kernel in kernels) - needed_bytes, 0),
            most_bytes=self._agent.memory().spare_peak_bytes,
            # A gap read while the device still runs the previous iteration is too large, so the smallest one counts.
            at_rest_bytes=max(min(marks.held_bytes - marks.needed_bytes for marks in self._marks), 0),
        )


def _iteration(kernels: list[KernelRecord], first: int, marks: _Marks) -> LoggedIteration | None:
    """An iteration whose kernels are all in the log, the first of which was launched after `first` others."""
    assert marks.end is not None
    begin, end = marks.begin - first, marks.end - first
    if begin < 0 or end > len(kernels) or begin >= end:
        return None
    return LoggedIteration(
        kernels=kernels[begin:end],
        forward_kernels=0 if marks.forward is None else marks.forward - marks.begin,
        rest_bytes=marks.needed_bytes,
        framework_bytes=marks.framework_bytes,
    )
