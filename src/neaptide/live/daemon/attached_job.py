"""One job with the daemon: its messages, its iterations as the board counts them, and why it may be off the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from neaptide.core.control.job import Job, JobKind
from neaptide.core.traces.columns import Integers
from neaptide.core.traces.profile import Profile
from neaptide.devices.board import PERMIT_ALL
from neaptide.live.protocol.messages import FromDaemon, Hello, IterationEnded


class EvictionReason(Enum):
    """Why a job's bytes are to be in host memory."""

    POLICY = "the policy suspended it"
    QUEUE = "it is not admitted"
    MEASURING = "a new job is measured"
    DEADLOCK = "an iteration that waited for memory needs the room"
    NO_ROOM = "it is new, and stopped jobs hold the memory that it needs"


class Stage(Enum):
    """What a job does before the controller knows it; ARRIVED from then on."""

    WAITING = "waiting to be measured"
    MEASURING = "measuring"  # from its turn on, also when it has lost it
    ARRIVED = "arrived"


@dataclass(frozen=True, eq=False)
class Course:
    """A measured iteration, along which the device's progress is read."""

    ends_ns: Integers  # at index n: when the first n ops have ended
    forward_ops: int

    @classmethod
    def of(cls, job: Job, profile: Profile) -> Course:
        ends_ns = np.concatenate(([0], job.trace.ends_ns))
        return cls(np.minimum(ends_ns, profile.solo_ns), job.trace.forward_end)

    @property
    def ops(self) -> int:
        return self.ends_ns.size - 1

    def position_ns(self, passed: int, kernels: int) -> int:
        """The device's position after `passed` of an iteration's `kernels`; before the end, which the job reports."""
        if passed <= 0:
            return 0
        return int(self.ends_ns[min(passed * self.ops // max(kernels, 1), self.ops - 1)])


@dataclass(slots=True)
class UnreportedIterations:
    """Iterations that have ended and that the controller was not told of: those of a job that runs ahead."""

    count: int = 0
    took_ns: int = 0
    work: float = 0.0  # in measured iterations

    def add(self, ended: IterationEnded) -> None:
        self.count += 1
        self.took_ns += ended.took_ns
        self.work += ended.size


@dataclass(eq=False)
class AttachedJob:
    """A job between its Hello and its end. Only the engine and the parts of the daemon beside it change it."""

    name: str
    hello: Hello
    start_time: int  # of its process
    say: Callable[[FromDaemon], None]
    hang_up: Callable[[], None]
    stage: Stage = Stage.WAITING
    job: Job | None = None  # from when it was measured
    profile: Profile | None = None
    course: Course | None = None

    # Iterations, as the board counts them.
    started: int = 0  # by the policy
    ended: int = 0  # the device has passed them
    permit: int = 0  # as last written to the board
    permitted_ns: int = 0  # when the last permit was given
    running: bool = False  # the policy has started an iteration that has not ended
    cap: int | None = None  # on kernels in flight, by the policy
    gate_open: bool = True
    first_done: int = 0  # kernels done when the running iteration began
    base_done: int = 0  # the same, corrected at the end of the forward pass
    kernels: int = 0  # of the last iteration; before the first, the ops of the trace
    forward_passed: bool = False
    unreported: UnreportedIterations = field(default_factory=UnreportedIterations)

    # Off the device.
    eviction: EvictionReason | None = None  # why its bytes are in host memory, or were asked to move there
    last_eviction: EvictionReason | None = None  # why they were, the last time
    asked_ns: int = 0  # when it was last asked to move its bytes
    unresponsive: bool = False  # its process is stopped or hangs: it gets no permits, and its bytes are off the budget
    stalled: bool = False
    request_assumed: bool = False  # a request was assumed on its behalf while it was suspended
    waits_since_ns: int | None = None  # a new job: since when it waits for memory

    # For the status.
    arrived_ns: int | None = None
    done_iterations: int = 0
    busy_ns: int = 0
    ends_ns: deque[int] = field(default_factory=lambda: deque(maxlen=17))
    peak_bytes: int = 0

    @property
    def slot(self) -> int:
        return self.hello.slot

    @property
    def arrived(self) -> bool:
        return self.stage is Stage.ARRIVED

    @property
    def trains(self) -> bool:
        return self.hello.kind is JobKind.TRAINING

    @property
    def runs_ahead(self) -> bool:
        """Whether it may begin iterations that the policy has not started."""
        return self.permit == PERMIT_ALL

    def becomes(self, job: Job, profile: Profile) -> None:
        """Take over what was measured of its iteration."""
        self.job, self.profile, self.course = job, profile, Course.of(job, profile)
        self.kernels = self.course.ops

    def position_ns(self, done: int) -> int:
        """The device's position in the running iteration when it has done so many of the job's kernels."""
        if not self.running or self.course is None:
            return 0
        return self.course.position_ns(done - self.base_done, self.kernels)

    def passed_forward(self, done: int) -> None:
        """Correct the position: the device is at the end of the forward pass."""
        if self.running and self.course is not None and not self.forward_passed:
            self.forward_passed = True
            # Rounded up, so that the position read from it is not before the end of the forward pass.
            self.base_done = done + -self.course.forward_ops * self.kernels // max(self.course.ops, 1)

    def iteration_begins(self, done: int) -> None:
        self.running, self.forward_passed, self.stalled = True, False, False
        self.base_done = self.first_done = done

    def iterations_end(self, done: int, count: int) -> None:
        """The running iteration has ended, or `count` of them since it began."""
        if self.running and done > self.first_done:
            self.kernels = max((done - self.first_done) // count, 1)
        self.running = self.stalled = False
