"""One job with the daemon: who it is, how far it was asked to go and has come, and why it may be off the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from neaptide.core.control.job import Job, JobKind
from neaptide.core.traces.curve import Integers
from neaptide.core.traces.profile import Profile
from neaptide.live.protocol.messages import FromDaemon, Hello


class EvictionReason(Enum):
    """Why a job's bytes are to be in host memory."""

    POLICY = "the policy suspended it"
    QUEUE = "it is not admitted"
    MEASURING = "a newcomer is measured"
    DEADLOCK = "every running iteration waited for memory"
    NO_ROOM = "it is new, and jobs that stand still hold what it needs"


class Stage(Enum):
    """Where a job is before the controller knows it, and after."""

    BUILDING = "building"  # its first iteration has not begun
    WAITING = "waiting to be measured"
    MEASURED = "measured"
    ARRIVED = "arrived"


@dataclass(frozen=True, eq=False)
class Course:
    """A measured iteration as a way along which the device's progress is read."""

    ends_ns: Integers  # after so many ops
    forward_ops: int

    @classmethod
    def of(cls, job: Job, profile: Profile) -> Course:
        ends_ns = np.concatenate(([0], np.round(job.trace.end_seconds * 1e9).astype(np.int64)))
        forward = int(np.searchsorted(ends_ns, profile.forward_ns)) if profile.forward_ns else 0
        return cls(np.minimum(ends_ns, profile.solo_ns), forward)

    @property
    def ops(self) -> int:
        return self.ends_ns.size - 1

    def position_ns(self, passed: int, kernels: int) -> int:
        """Where the device is after `passed` of the `kernels` of an iteration; at its end only when it says so."""
        if passed <= 0:
            return 0
        return int(self.ends_ns[min(passed * self.ops // max(kernels, 1), self.ops - 1)])


@dataclass(eq=False)
class AttachedJob:
    """A job that has said Hello and is not gone. The engine and those beside it change it; nobody else does."""

    name: str
    hello: Hello
    start_time: int  # of its process
    say: Callable[[FromDaemon], None]
    hang_up: Callable[[], None]
    stage: Stage = Stage.BUILDING
    job: Job | None = None  # from when it was measured
    profile: Profile | None = None
    course: Course | None = None

    # Iterations, counted as the board does.
    started: int = 0  # that the policy has started
    ended: int = 0  # that the device has passed
    permit: int = 0  # as it was last set on the board
    permitted_ns: int = 0  # when the last permit was given
    running: bool = False  # the policy has started one that has not ended
    cap: int | None = None  # on kernels in flight, by the policy
    gate_open: bool = True
    first_done: int = 0  # kernels done when the running iteration began
    base_done: int = 0  # the same, put right when it is known where the device is
    kernels: int = 0  # of the last iteration; 0 before there was one
    forward_passed: bool = False
    untold: int = 0  # iterations that have ended while it was alone, of which the controller does not know yet
    untold_ns: int = 0  # what they took
    untold_work: float = 0.0  # and were, in iterations as they were measured

    # Off the device.
    away: EvictionReason | None = None  # it is in host memory, or was asked to go there
    away_before: EvictionReason | None = None  # why it was, the last time
    asked_ns: int = 0  # when it was last asked to go or come
    unresponsive: bool = False  # stopped or hanging: nobody waits for it, and its bytes cannot be counted on
    stalled: bool = False
    presumed: bool = False  # a request that it cannot tell of while it is away was told for it
    wants_since_ns: int | None = None  # as a newcomer, memory that it waits for

    # For people.
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

    def becomes(self, job: Job, profile: Profile) -> None:
        """It was measured: this is its iteration."""
        self.job, self.profile, self.course = job, profile, Course.of(job, profile)
        self.kernels = self.course.ops

    def position_ns(self, done: int) -> int:
        if not self.running or self.course is None:
            return 0
        return self.course.position_ns(done - self.base_done, self.kernels)

    def passed_forward(self, done: int) -> None:
        """The device has passed the forward pass: now it is known again where it is."""
        if self.running and self.course is not None and not self.forward_passed:
            self.forward_passed = True
            self.base_done = done - self.course.forward_ops * self.kernels // max(self.course.ops, 1)

    def iteration_begins(self, done: int) -> None:
        self.running, self.forward_passed, self.stalled = True, False, False
        self.base_done = self.first_done = done

    def iteration_ends(self, done: int) -> None:
        if self.running and done > self.first_done:
            self.kernels = done - self.first_done
        self.running = self.stalled = False
