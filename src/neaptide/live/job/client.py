"""The part of neaptide inside a job: joins the daemon, measures, then has every iteration wait for its permit.

The first launch of the process waits until the daemon gives it its turn; then its first iterations are measured; from
then on the launch gate is armed at the beginning of each iteration, and reported when the device has passed its end.
When the daemon goes away the job goes on under the board's limits and joins again when there is one.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import torch

from neaptide.core.control.job import JobKind
from neaptide.core.traces.curve import Integers
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.trace_format import decode
from neaptide.devices.soft import native
from neaptide.devices.soft.torch_module.memory import spare_bytes
from neaptide.live.job.connection import Connection
from neaptide.live.job.first_iterations import FirstIterations
from neaptide.live.job.iterations import Iterations
from neaptide.live.job.sizes import Growth, Sizes
from neaptide.live.protocol.messages import (
    Failed,
    Goodbye,
    Grew,
    Hello,
    JobRefused,
    Profiled,
    RequestArrived,
    Turn,
    Welcome,
)

_ALL = 2**32 - 1
_NO_CEILING = 2**64 - 1
_RESTORE = 2
_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_REASON_LETTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What a job says of itself."""

    name: str
    socket: Path
    kind: JobKind = JobKind.TRAINING
    iterations: int | None = None
    priority: int = 0
    deadline_seconds: float | None = None


class Client:
    """One process's membership. Public calls are made on the program's own thread."""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._slot = int(native.slot())
        self._connection = Connection(settings.socket)
        self._iterations = Iterations(self, torch.device("soft").type)
        self._first: FirstIterations | None = FirstIterations()
        self._trace: bytes | None = None
        self._measured = 0
        self._growth: Growth | None = None  # from when it was measured
        self._sizes = Sizes()
        self._turn = False  # the daemon waits for the trace
        self._serves = False  # the trace is of a program that had not trained
        self._reported = 0  # iterations begun when the last one was reported
        self._failure: str | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="neaptide-connection", daemon=True)
        self._launches = False  # the program uses the device
        self._holds = False  # the first launch, at the gate
        self._saying = threading.Lock()  # the trace and the turn, whichever comes last, lead to one Profiled

    def join(self) -> None:
        """Begin: from here on the first launch waits for the daemon."""
        self._iterations.install()
        self._holds = True
        native.close_launch_gate()
        self._thread.start()

    def fail(self, reason: str) -> None:
        """The program ends by an error; `leave` will say so."""
        self._failure = reason

    def leave(self) -> None:
        """End: report what the device has passed, and say goodbye."""
        if os.getpid() != self._pid or self._leaving.is_set():
            return
        self._leaving.set()
        self._iterations.remove()
        if self._first is not None:
            self._first.stop()
        self._let_go()
        if not self._launches:
            self._thread.join()  # it looks at the device, which is stopped next
            return
        # The device does what was launched before it stops.
        farewell = Goodbye() if self._failure is None else Failed(self._failure[:_REASON_LETTERS])
        self._connection.send_after_the_device(farewell)

    def forget(self) -> None:
        """In a forked child, which cannot use the device: undo everything, without a word to the daemon."""
        self._iterations.remove()
        self._connection.forget()

    # --- what Iterations tells

    def begin(self, serving: bool, trained: bool) -> None:
        if self._first is not None:
            self._sizes.measured(native.take_recent()[1])
            trace = self._first.begin(serving, trained, lambda: self.settings.name)
            if trace is None:
                return
            self._serves = not trained
            self._growth = self._foresee(trace, self._first.op_of_kernel)
            self._say_profiled(trace, self._first.begun)
            self._first = None
        native.arm_iteration()
        if self.settings.kind is JobKind.INFERENCE:
            self._connection.send(RequestArrived())

    @staticmethod
    def _foresee(encoded: bytes, op_of_kernel: Integers | None) -> Growth:
        """Have the board keep room for what an iteration will take."""
        trace = decode(encoded)
        growth = Growth(Leases.of(trace, LeaseOverhead(*spare_bytes())), op_of_kernel, trace.peak_bytes)
        native.foresee(growth.levels, len(growth.levels))
        return growth

    def end_forward(self) -> None:
        if self._first is None:
            self._connection.forward_ends()

    def end(self) -> None:
        if self._first is not None:
            return
        begun = native.iterations_begun()
        if begun == self._reported:
            return  # it launched nothing: the next one has its place
        self._reported = begun
        native.end_iteration()
        peak_bytes, allocated_bytes = native.take_recent()
        self._connection.iteration_ends(begun - 1, self._sizes.of(allocated_bytes), native.iteration_began_ns())
        self._needed(peak_bytes)

    def _needed(self, peak_bytes: int) -> None:
        growth = self._growth
        if growth is not None and growth.grows_to(peak_bytes):
            native.foresee(growth.levels, len(growth.levels))
            self._say_growth()

    def _say_growth(self) -> None:
        """Tell the daemon, which has only the trace."""
        if self._growth is not None and self._growth.grown:
            self._connection.send(Grew(self._growth.peak_bytes))

    def change(self) -> None:
        if self._first is not None:
            self._first.change()
        elif self._serves:  # it has begun to train, and what is known of it is no longer true
            self._serves = False
            self._growth, self._sizes = None, Sizes()
            native.foresee([], 1)
            self._first = FirstIterations()
            self._first.change()
            with self._saying:
                self._trace, self._turn = None, False
            self._connection.send(Goodbye())
            self._connection.hang_up()

    # --- the daemon

    def _attend(self) -> None:
        while not native.wait_for_held_launch(_LOOK_SECONDS):
            if self._leaving.is_set():
                return
        self._launches = True
        warned = False
        while not self._leaving.is_set():
            if self._connection.connect(self._hello):
                if not self._listen():
                    return
                self._go_on_alone()
            elif not warned:
                warned = True
                self._print(f"no daemon at {self._connection.path}; the job runs without one until there is")
            self._let_go()
            if native.evicted():  # perhaps only since the daemon is gone, which had asked for it
                native.request(self._slot, _RESTORE)
            self._leaving.wait(_RETRY_SECONDS)

    def _hello(self, ended: int) -> Hello:
        settings, trace = self.settings, self._trace
        return Hello(
            pid=self._pid,
            slot=self._slot,
            job=settings.name,
            kind=settings.kind,
            iterations=settings.iterations,
            priority=settings.priority,
            deadline_seconds=settings.deadline_seconds,
            ended=ended,
            resumed=trace is not None,
            trace=trace,
        )

    def _listen(self) -> bool:
        """Until the daemon is gone; False when there is no need to look for it again."""
        while (said := self._connection.receive()) is not None and not self._leaving.is_set():
            match said:
                case Welcome(measure=False):
                    self._say_growth()
                    self._let_go()
                case Turn():
                    self._take_turn()
                case JobRefused(reason=reason):
                    self._print(f"job {self.settings.name} was refused: {reason}")
                    native.refuse_launches(f"neaptide: job {self.settings.name} was refused: {reason}")
                    self._connection.close()
                    return False
        self._connection.close()
        return not self._leaving.is_set()

    def _take_turn(self) -> None:
        with self._saying:
            self._turn = True
            if self._trace is not None:
                self._connection.send(Profiled(self._trace, self._measured))
                self._say_growth()
        self._let_go()

    def _say_profiled(self, trace: bytes, measured: int) -> None:
        with self._saying:
            self._trace, self._measured = trace, measured
            if self._turn:
                self._connection.send(Profiled(trace, measured))

    def _let_go(self) -> None:
        """Open the gate once: later it is closed only while the job's memory is away, and must stay so."""
        if self._holds:
            self._holds = False
            native.open_launch_gate()

    def _go_on_alone(self) -> None:
        """Nobody permits anything any more."""
        self._turn = False
        native.set_permit(self._slot, _ALL)
        native.set_heavy_open(self._slot, True)
        native.set_slot_cap(self._slot, _ALL)
        native.set_ceiling(self._slot, _NO_CEILING)

    @staticmethod
    def _print(line: str) -> None:
        print(f"neaptide: {line}", file=sys.stderr, flush=True)
