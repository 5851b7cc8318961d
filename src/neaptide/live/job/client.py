"""A job's side of the protocol: it joins the daemon, is measured, and then waits for a permit before each iteration.

The first launch of the process waits until the daemon gives it its turn; then its first iterations are measured; from
then on each iteration is armed when it begins, and its end is reported when the device has passed it. When the daemon
goes away the job goes on under the board's limits, and joins the next daemon.

The client waits for nothing and needs neither torch, nor a thread, nor a socket: `live.job.connection` carries its
messages, `capture.boundaries` reports its iterations, and a fake device and measurer run it in virtual time.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import astuple, dataclass

from neaptide.core.control.job import JobKind
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import encode
from neaptide.devices.interface import DeviceAgent
from neaptide.live.job.growth import Growth
from neaptide.live.job.measurer import Measured, Measurer
from neaptide.live.job.sizes import Sizes
from neaptide.live.protocol.framing import frame
from neaptide.live.protocol.messages import (
    Failed,
    FromDaemon,
    Goodbye,
    Grew,
    Hello,
    IterationEnded,
    JobRefused,
    Message,
    PhaseEnded,
    Profiled,
    RequestArrived,
    Turn,
    Welcome,
)

_REASON_LETTERS = 4096
_LAST_MEASURED = 4  # the last measured iterations, which run without the recorder
_FORWARD_ENDED = frame(PhaseEnded(Phase.FORWARD))
# The device writes an iteration's duration over this value, which msgpack encodes in the last eight bytes.
_DURATION_NS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What a job tells the daemon about itself."""

    name: str
    kind: JobKind = JobKind.TRAINING
    iterations: int | None = None
    priority: int = 0
    deadline_seconds: float | None = None


class Client:
    """One process's membership. It is a Listener of its iterations; those calls come on the program's own thread.

    `hello`, `handle` and `lost` come on the thread of the connection. `new_measurer` makes what measures the first
    iterations; it is called again when a program that served begins to train.
    """

    def __init__(self, agent: DeviceAgent, settings: JobSettings, new_measurer: Callable[[], Measurer]) -> None:
        self.settings = settings
        self.refused = False
        self.hang_up: Callable[[], None] = lambda: None
        """Ends the connection; `lost` and another `hello` follow. The connection sets it."""
        self._agent = agent
        self._new_measurer = new_measurer
        self._measurer: Measurer | None = new_measurer()
        self._trace: bytes | None = None
        self._overhead = LeaseOverhead()
        self._gaps_at_rest: deque[int] = deque(maxlen=_LAST_MEASURED)  # bytes leased and not needed at iteration starts
        self._measured_iterations = 0
        self._growth: Growth | None = None  # None until the job has been measured
        self._sizes = Sizes()
        self._turn = False  # the daemon has given this job its turn, and expects Profiled
        self._serves = False  # the trace was made before the program first trained
        self._greeted = False
        self._failure: str | None = None
        self._holds = False  # the first launch waits
        self._sending = threading.Lock()  # one Profiled is sent, when both the trace and the turn are there

    def hold(self) -> None:
        """Make the first launch wait for the daemon."""
        self._holds = True
        self._agent.hold_launches()

    def fail(self, reason: str) -> None:
        """The program ends by an error; `leave` will say so."""
        self._failure = reason

    def leave(self) -> None:
        """Stop measuring, and report the job's end to the daemon once the device has done what was launched."""
        if self._measurer is not None:
            self._measurer.stop()
        self._release()
        if self._greeted:
            farewell = Goodbye() if self._failure is None else Failed(self._failure[:_REASON_LETTERS])
            self._agent.send(frame(farewell), after_device=True)

    # --- iterations (a Listener)

    def begin(self, serving: bool, trained: bool) -> None:
        if self._measurer is not None:
            self._sizes.measured(self._agent.take_recent()[1])
            memory = self._agent.memory()
            self._gaps_at_rest.append(memory.held_bytes - memory.needed_bytes)
            measured = self._measurer.begin(serving, trained, lambda: self.settings.name)
            if measured is None:
                return
            self._measurer = None
            self._serves = not trained
            self._expect(measured)
            self._send_profiled(encode(measured.trace), measured.iterations)
        self._agent.arm_iteration()
        if self.settings.kind is JobKind.INFERENCE:
            self._send(RequestArrived())

    def end_forward(self) -> None:
        if self._measurer is None:
            self._agent.send(_FORWARD_ENDED, after_device=True)

    def end(self) -> None:
        if self._measurer is not None:
            return
        facts = self._agent.end_iteration()
        if facts is None:  # it launched nothing: the next iteration takes its place
            return
        message = IterationEnded(facts.index, self._sizes.of(facts.allocated_bytes), _DURATION_NS)
        self._agent.report_iteration(frame(message), facts)
        if self._growth is not None and self._growth.grows_to(facts.peak_bytes):
            self._agent.expect(self._growth.levels)
            self._send_growth()

    def change(self) -> None:
        if self._measurer is not None:
            self._measurer.change()
        elif self._serves:  # the program begins to train, so its trace is no longer true
            self._serves = False
            self._growth, self._sizes = None, Sizes()
            self._agent.expect(())
            self._measurer = self._new_measurer()
            self._measurer.change()
            with self._sending:
                self._trace, self._turn = None, False
            self._send(Goodbye())
            self.hang_up()

    def _expect(self, measured: Measured) -> None:
        """Have the board keep room for what an iteration will hold."""
        memory, trace = self._agent.memory(), measured.trace
        self._overhead = LeaseOverhead(
            peak_bytes=max(memory.held_peak_bytes - memory.needed_peak_bytes, 0),
            most_bytes=memory.spare_peak_bytes,
            # A gap read while the device still runs the previous iteration is too large, so the smallest one counts.
            at_rest_bytes=max(min(self._gaps_at_rest), 0),
        )
        self._growth = Growth(Leases.of(trace, self._overhead), measured.op_of_kernel, trace.peak_bytes)
        self._agent.expect(self._growth.levels)

    # --- the daemon

    def hello(self, ended: int) -> Hello:
        """What to say first on a new connection; the device has passed `ended` iterations."""
        self._greeted = True
        settings, trace = self.settings, self._trace
        return Hello(
            pid=os.getpid(),
            slot=self._agent.slot,
            job=settings.name,
            kind=settings.kind,
            iterations=settings.iterations,
            priority=settings.priority,
            deadline_seconds=settings.deadline_seconds,
            ended=ended,
            resumed=trace is not None,
            trace=trace,
            lease_overhead=astuple(self._overhead),
        )

    def handle(self, message: FromDaemon) -> None:
        """Do what the daemon says."""
        match message:
            case Welcome(measure=False):
                self._send_growth()
                self._release()
            case Turn():
                with self._sending:
                    self._turn = True
                    if self._trace is not None:
                        self._send(self._profiled(self._trace))
                        self._send_growth()
                self._release()
            case JobRefused(reason=reason):
                self.refused = True
                problem = f"neaptide: job {self.settings.name} was refused: {reason}"
                print(problem, file=sys.stderr, flush=True)
                self._agent.refuse_launches(problem)

    def lost(self) -> None:
        """There is no daemon: go on without one. Called again as long as there is none."""
        self._turn = False
        self._agent.run_without_daemon()
        self._release()

    def _send_profiled(self, trace: bytes, iterations: int) -> None:
        with self._sending:
            self._trace, self._measured_iterations = trace, iterations
            if self._turn:
                self._send(self._profiled(trace))

    def _profiled(self, trace: bytes) -> Profiled:
        return Profiled(trace, self._measured_iterations, astuple(self._overhead))

    def _send_growth(self) -> None:
        """Tell the daemon of the grown peak, which is not in the trace."""
        if self._growth is not None and self._growth.grown:
            self._send(Grew(self._growth.leases.peak_bytes))

    def _send(self, message: Message) -> None:
        """Send now, if there is a daemon. If its socket has no room for a small message, the connection ends."""
        self._agent.send(frame(message))

    def _release(self) -> None:
        """Release held launches, the first time only.

        Afterwards only an eviction holds launches, and this must not end that hold.
        """
        if self._holds:
            self._holds = False
            self._agent.release_launches()
