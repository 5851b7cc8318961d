"""A job's side of the protocol: it joins the daemon, is measured, and then waits for a permit before each iteration.

The first launch of the process waits until the daemon has welcomed it; then its first iterations are measured; from
then on, or from the first whole iteration on if an earlier run of the program was measured, each iteration is armed
when it begins, and its end is reported when the device has passed it. When its iterations have changed for good, they
are measured again while they run. When the daemon goes away the job goes on under the board's limits, and joins the
next daemon.

The program's threads have iterations of their own, and the process has one on the board at a time: a thread that begins
while it is open takes part in it, and the first thread that ends closes it.

The client waits for nothing and needs neither torch, nor a thread, nor a socket: `live.job.connection` carries its
messages, `capture.boundaries` reports its iterations, and a fake device and measurer run it in virtual time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import astuple

from neaptide.core.control.job import JobKind
from neaptide.core.text import complain_aside
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import encode
from neaptide.devices.interface import DeviceAgent, IterationFacts
from neaptide.live.job.changes import Changes
from neaptide.live.job.growth import Growth
from neaptide.live.job.known_profiles import KnownProfile
from neaptide.live.job.measurer import Measured, Measurer
from neaptide.live.job.serving.requests import RequestBook
from neaptide.live.job.sizes import Sizes
from neaptide.live.protocol.framing import frame
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.protocol.messages import (
    REASON_LETTERS,
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
    Welcome,
)

_FORWARD_ENDED = frame(PhaseEnded(Phase.FORWARD))
# The device writes an iteration's duration over this value, which msgpack encodes in the last eight bytes.
_DURATION_NS = 2**62


class Client:
    """One process's membership. It is a Listener of its iterations; those calls come on the program's own threads.

    `hello`, `handle` and `lost` come on the thread of the connection. `new_measurer` makes what measures iterations; it
    is called again when they have changed for good, or when a program that served begins to train.
    """

    def __init__(
        self,
        agent: DeviceAgent,
        settings: JobSettings,
        new_measurer: Callable[[], Measurer],
        requests: RequestBook | None = None,
        known: KnownProfile | None = None,
    ) -> None:
        self.settings = settings
        self.refused = False  # for good: the job ends
        self.turned_away = False  # by the present daemon: the job goes on alone, and asks again later
        self.welcomed: Callable[[Welcome], None] = lambda _: None
        """Called with each Welcome; whoever made the client sets it."""
        self.measured: Callable[[KnownProfile], None] = lambda _: None
        """Called with each measurement; whoever made the client sets it."""
        self._known = known  # from an earlier run, until it is used or this run was measured
        self._budget_bytes = 0  # as the daemon said in its Welcome
        self._unarmed = 0  # iterations begun before the first that was armed
        self._agent = agent
        self._new_measurer = new_measurer
        self._measurer: Measurer | None = new_measurer()
        self._requests = requests or RequestBook()
        self._trace: bytes | None = None
        self._overhead = LeaseOverhead()
        self._measured_iterations = 0
        self._measured_seconds = 0.0
        self._growth: Growth | None = None  # None until the job has been measured
        self._changes = Changes()
        self._sizes = Sizes()
        self._iterating = threading.Lock()  # guards what follows, and the measurer
        self._inside: dict[int, int] = {}  # threads inside an iteration, and kernels launched when each began
        self._open = False  # the process's iteration is armed, or has begun and not ended
        self._extra = 0  # iterations of threads that ended after another thread had ended the process's
        self._sending = threading.Lock()  # guards what follows
        self._welcomed = False  # the daemon expects Profiled
        self._serves = False  # the trace was made before the program first trained
        self._greeted = False
        self._failure: str | None = None
        self._holds = False  # the first launch waits
        self._alone = False  # it has run without a daemon, so no daemon may end it

    def hold(self) -> None:
        """Make the first launch wait for the daemon."""
        self._holds = True
        self._agent.hold_launches()

    def fail(self, reason: str) -> None:
        """The program ends by an error; `leave` will say so."""
        self._failure = reason

    def leave(self) -> None:
        """Report the job's end to the daemon once the device has done what was launched."""
        self._release()
        if self._greeted:
            farewell = Goodbye() if self._failure is None else Failed(self._failure[:REASON_LETTERS])
            self._agent.send(frame(farewell), after_device=True)

    # --- iterations (a Listener)

    def begin(self, serving: bool, trained: bool) -> None:
        with self._iterating:
            self._inside[threading.get_ident()] = self._agent.launched()
            if not self._open:
                self._open_iteration(serving, trained)
            elif self._growth is not None and self._serves_requests:
                self._requests.call(joins=True)

    def end_forward(self) -> None:
        with self._iterating:
            if len(self._inside) > 1:  # of several threads, each has a forward pass
                return
            if self._measurer is not None:
                self._measurer.end_forward()
            if self._growth is not None:
                self._agent.report_progress(_FORWARD_ENDED)

    def end(self) -> None:
        with self._iterating:
            launched = self._inside.pop(threading.get_ident(), None)
            if self._growth is None:
                self._open = False
            elif self._open and (facts := self._agent.end_iteration()) is not None:
                self._open = False
                self._report(self._growth, facts)
            elif launched is not None and self._agent.launched() > launched:
                self._extra += 1  # its kernels belong to the iteration that another thread has ended
            elif self._open and not self._inside and self._serves_requests and self._agent.disarm_iteration():
                self._open = False
                self._requests.withdraw_call()
            # Otherwise nothing was launched: the next iteration takes its place.
            if not self._open and self._others_are_inside():
                self._open_iteration(serving=False, trained=True)

    def change(self) -> None:
        with self._iterating:
            if self._measurer is not None:
                self._measurer.change()
            elif self._serves:  # the program begins to train, so its trace is no longer true
                self._measurer = self._new_measurer()
                self._measurer.change()
            self._serves = False

    def _open_iteration(self, serving: bool, trained: bool) -> None:
        """Begin the process's iteration: its first launch waits for a permit, if the job has been measured."""
        self._open = True
        if self._growth is None:
            self._sizes.add(self._agent.take_recent()[1])
        if self._measurer is not None:
            measured = self._measurer.begin(serving, trained, lambda: self.settings.name)
            if measured is not None:
                self._take(measured, trained)
            elif self._known is not None and serving != trained:
                self._take_known(self._known, serving)
        if self._growth is None:
            self._unarmed += 1
        else:
            self._agent.arm_iteration()
            if self._serves_requests:
                self._requests.call(joins=False)

    @property
    def _serves_requests(self) -> bool:
        """Whether the calls of its model are requests."""
        return self.settings.kind is JobKind.INFERENCE

    def _report(self, growth: Growth, facts: IterationFacts) -> None:
        """Report the end of the process's iteration."""
        self._sizes.add(facts.allocated_bytes)
        message = IterationEnded(facts.index, self._sizes.of(facts.allocated_bytes), self._extra, _DURATION_NS)
        self._agent.report_iteration(frame(message), facts)
        if growth.grows_to(facts.peak_bytes):
            self._agent.expect(growth.levels)
        if growth.is_to_be_told(facts.began_ns):
            self._send_growth()
        if self._changes.have_come(self._agent.memory().needed_bytes, facts.peak_bytes) and self._measurer is None:
            self._measurer = self._new_measurer()

    def _others_are_inside(self) -> bool:
        """Whether another thread is inside an iteration, so that its next launch begins one of the process.

        A thread that serves goes on without one: an iteration that it might not begin would be a request too many.
        """
        if not self._inside or self._serves_requests:
            return False
        alive = {thread.ident for thread in threading.enumerate()}
        self._inside = {thread: launched for thread, launched in self._inside.items() if thread in alive}
        return bool(self._inside)

    def _take(self, measured: Measured, trained: bool) -> None:
        """Plan with what was measured."""
        self._measurer, self._known = None, None
        self._expect(measured, trained)
        self.measured(KnownProfile(measured.trace, measured.overhead, not trained))

    def _take_known(self, known: KnownProfile, serving: bool) -> None:
        """Plan with what an earlier run measured, until this one is; not if it served or is larger than the budget."""
        self._known = None
        if known.serves == serving and known.peak_bytes <= self._budget_bytes:
            self._expect(Measured(known.trace, self._unarmed, overhead=known.overhead), not serving)

    def _expect(self, measured: Measured, trained: bool) -> None:
        """Have the board keep room for what an iteration will hold, and tell the daemon."""
        trace = measured.trace
        self._serves, self._overhead = not trained, measured.overhead
        self._sizes.settle()
        self._changes.measured(trace.persistent_bytes, trace.peak_bytes)
        self._growth = Growth(Leases.of(trace, measured.overhead), measured.op_of_kernel, trace.peak_bytes)
        self._agent.expect(self._growth.levels)
        self._send_profiled(encode(trace), measured)
        self._requests.connect(self._send)

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
            deadline_quantile=settings.deadline_quantile,
            latency_critical=settings.latency_critical,
            memory_bytes=settings.memory_bytes if self._known is None else self._known.peak_bytes,
            ended=ended,
            resumed=trace is not None,
            trace=trace,
            lease_overhead=astuple(self._overhead),
        )

    def handle(self, message: FromDaemon) -> None:
        """Do what the daemon says."""
        if isinstance(message, Welcome):
            self.turned_away = False
            self.welcomed(message)
        match message:
            case Welcome(measure=measure):
                with self._sending:
                    self._welcomed = True
                    self._budget_bytes = message.budget_bytes
                    if measure and self._trace is not None:  # it was measured since Hello
                        self._send(self._profiled(self._trace))
                self._send_growth()
                self._release()
            case JobRefused(reason=reason) if self._alone:
                if not self.turned_away:
                    complain_aside(
                        f"job {self.settings.name} goes on without the daemon, under the board's limits: {reason}"
                    )
                self.turned_away = True
            case JobRefused(reason=reason):
                self.refused = True
                problem = f"job {self.settings.name} was refused: {reason}"
                complain_aside(problem)
                self._agent.refuse_launches(f"neaptide: {problem}")

    def lost(self) -> None:
        """There is no daemon: go on without one. Called again as long as there is none."""
        self._alone = True
        with self._sending:
            self._welcomed = False
        try:
            self._agent.run_without_daemon()
        finally:
            self._release()

    @property
    def holds(self) -> bool:
        """Whether the first launch waits for the daemon."""
        return self._holds

    def stop_waiting(self) -> None:
        """The daemon is silent: it may be stopped, and the first launch waits no longer."""
        self._alone = True
        self._release()

    def _send_profiled(self, trace: bytes, measured: Measured) -> None:
        with self._sending:
            self._trace, self._measured_iterations = trace, measured.iterations
            self._measured_seconds = measured.seconds
            if self._welcomed:
                self._send(self._profiled(trace))

    def _profiled(self, trace: bytes) -> Profiled:
        return Profiled(
            trace,
            self._measured_iterations,
            astuple(self._overhead),
            self._measured_seconds,
        )

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
