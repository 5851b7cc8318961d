"""One job with the daemon: its messages, its iterations as the board counts them, and why it may be off the device."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic_ns
from typing import Protocol

import numpy as np

from neaptide.core.control.actions import SetGate
from neaptide.core.control.job import Job, JobKind
from neaptide.core.traces.columns import Integers
from neaptide.core.traces.profile import Profile
from neaptide.core.units import format_bytes
from neaptide.devices.board import PERMIT_ALL, Progress
from neaptide.live.protocol.messages import FromDaemon, Hello, IterationEnded


class Caller(Protocol):
    """A connected job or command."""

    job: AttachedJob | None
    peer_pid: int  # of the process at the other end, as the kernel says

    def say(self, message: FromDaemon) -> None:
        """Send a message, if the connection is still there."""

    def hang_up(self) -> None:
        """End the connection when the messages are sent."""


class EvictionReason(Enum):
    """Why a job's bytes are to be in host memory."""

    POLICY = "the policy suspended it"
    QUEUE = "it is not admitted"
    NEWCOMER = "a new job needs the room"
    DEADLOCK = "an iteration that waited for memory needs the room"
    NO_ROOM = "it is new, and there is no room for it now"


@dataclass(frozen=True, eq=False)
class Course:
    """A measured iteration, along which the device's progress is read."""

    ends_ns: Integers  # at index n: when the first n ops have ended
    forward_ops: int

    @classmethod
    def of(cls, job: Job, profile: Profile) -> Course:
        ends_ns = np.concatenate(([0], job.trace.ends_ns))
        in_time = np.round(ends_ns * (profile.solo_ns / max(int(ends_ns[-1]), 1))).astype(np.int64)
        return cls(np.minimum(in_time, profile.solo_ns), job.trace.forward_end)

    @property
    def ops(self) -> int:
        return self.ends_ns.size - 1

    def position_ns(self, passed: int, kernels: int, since_ns: int) -> int:
        """The device's position `since_ns` after it was seen to have passed so many of an iteration's `kernels`.

        The ops that the device has passed count with their own times, and the op that runs with the time that has gone
        by, but as unfinished: also the last one, whose end the job reports. If an iteration launches another number of
        kernels than the measured one, it is followed in proportion.
        """
        if passed <= 0 or self.ops == 0:
            return 0
        op = min(passed * self.ops // max(kernels, 1), self.ops - 1)
        begin_ns, end_ns = self.ends_ns[op : op + 2].tolist()
        return int(max(begin_ns, min(begin_ns + since_ns, end_ns - 1)))


def waits_for_budget(peak_bytes: int, budget_bytes: int) -> str:
    """Why a job waits that ran under a larger budget."""
    problem = f"needs {format_bytes(peak_bytes)} and the budget is {format_bytes(budget_bytes)}"
    return f"{problem}; it waits in host memory until the budget is raised (neaptide budget)"


@dataclass(slots=True)
class UnreportedIterations:
    """Iterations that have ended and that the controller was not told of: those of a job that runs ahead."""

    count: int = 0
    took_ns: int = 0
    work: float = 0.0  # in measured iterations

    def add(self, ended: IterationEnded, count: int, steps: int) -> None:
        self.count += steps
        self.took_ns += ended.took_ns
        self.work += ended.size * count  # the earlier of several together are taken to have been as large


_OPEN = SetGate("", open=True)


@dataclass(eq=False)
class AttachedJob:
    """A job between its Hello and its end. Only the engine and the parts of the daemon beside it change it."""

    name: str
    hello: Hello
    start_time: int  # of its process
    caller: Caller
    largest_budget_bytes: int = 0  # that there has been since it said Hello
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
    gate: SetGate = _OPEN  # as the policy set it last
    in_deadline_class: bool = False
    share: float | None = None  # of the device's SMs, by the policy
    ceiling_bytes: int | None = None  # on its leases, by the policy
    limit_bytes: int | None = None  # of its leases, by the policy: what it needs beyond goes over the link
    lane: int | None = None  # as last written to the board
    first_done: int = 0  # kernels done when the running iteration began
    base_done: int = 0  # the same, corrected at the end of the forward pass
    kernels: int = 0  # of the last iteration; before the first, the ops of the trace
    forward_passed: bool = False
    seen_done: int = 0  # kernels done, when the device's position was last asked for
    seen_done_ns: int = 0  # when it was first seen to have done so many
    unreported: UnreportedIterations = field(default_factory=UnreportedIterations)

    # Off the device.
    eviction: EvictionReason | None = None  # why its bytes are in host memory, or were asked to move there
    last_eviction: EvictionReason | None = None  # why its bytes were there the last time
    asked_ns: int = 0  # when it was last asked to move its bytes
    kept_until_ns: int = 0  # its process could not move its bytes to host memory: it is not asked again before
    unresponsive: bool = False  # its process is stopped or hangs: it gets no permits, and its bytes are off the budget
    stalled: bool = False
    request_assumed: bool = False  # a request was assumed on its behalf while it was suspended
    open_requests: dict[int, int] = field(default_factory=dict)  # announced and not answered: when each arrived
    waits_for: str = ""  # why it is not admitted, when that is no decision of the policy
    counted_bytes: int = 0  # a new job: what policies must leave to it
    extra: int | None = None  # iterations that it counts beside the board's; None: another daemon has counted them

    # For the status.
    greeted_ns: int = 0
    arrived_ns: int | None = None
    done_iterations: int = 0
    measured_iterations: int = 0  # those before it was measured, which the board does not count
    waited_ns: int = 0  # how long it could not run because of other jobs, when it was last seen
    stalled_ns: int = 0  # of these, inside iterations, for memory
    ends_ns: deque[int] = field(default_factory=lambda: deque(maxlen=17))
    peak_bytes: int = 0

    def __post_init__(self) -> None:
        self.slot = self.hello.slot

    def say(self, message: FromDaemon) -> None:
        """Send the job a message, if its connection is still there."""
        self.caller.say(message)

    @property
    def arrived(self) -> bool:
        """Whether it was measured, so that the controller knows it."""
        return self.arrived_ns is not None

    @property
    def is_new(self) -> bool:
        """Whether nothing is known of its iterations yet."""
        return not self.arrived and not self.waits_for

    @property
    def expected_bytes(self) -> int:
        """What it is expected to hold before it was measured, as it said in Hello; 0: it is not known."""
        return min(self.hello.memory_bytes or 0, self.largest_budget_bytes)

    @property
    def trains(self) -> bool:
        return self.hello.kind is JobKind.TRAINING

    @property
    def runs_ahead(self) -> bool:
        """Whether it may begin iterations that the policy has not started."""
        return self.permit == PERMIT_ALL

    @property
    def gate_open(self) -> bool:
        """Whether its gate is open, and stays so."""
        return self.gate.open and self.gate.until_ns is None

    def can_move(self, now_ns: int) -> bool:
        """Whether it may be asked to move its bytes to host memory."""
        return self.eviction is None and not self.unresponsive and now_ns >= self.kept_until_ns

    def becomes(self, job: Job, profile: Profile) -> None:
        """Take over what was measured of its iteration."""
        self.job, self.kernels = job, len(job.trace.ops)
        self.is_known_as(profile)

    def is_known_as(self, profile: Profile) -> None:
        """Take over what the ledger knows now of the job's iteration."""
        assert self.job is not None
        self.profile, self.course = profile, Course.of(self.job, profile)

    def note_waiting(self, seen: Progress) -> None:
        """Take over how long it has waited for others, if the slot is still its own."""
        if seen.taken and seen.pid == self.hello.pid:
            now_ns = monotonic_ns() - seen.waits_since_ns if seen.waits_since_ns else 0
            self.waited_ns = max(self.waited_ns, seen.waited_ns + max(now_ns, 0))
            self.stalled_ns = max(self.stalled_ns, seen.stalled_ns)

    def position_ns(self, done: int, now_ns: int) -> int:
        """The device's position in the running iteration, now that it has done so many of the job's kernels."""
        if done != self.seen_done:
            self.seen_done, self.seen_done_ns = done, now_ns
        if not self.running or self.course is None:
            return 0
        return self.course.position_ns(done - self.base_done, self.kernels, now_ns - self.seen_done_ns)

    def passed_forward(self, done: int, now_ns: int) -> None:
        """Correct the position: the device is at the end of the forward pass."""
        if self.running and self.course is not None and not self.forward_passed:
            self.forward_passed = True
            self.seen_done, self.seen_done_ns = done, now_ns
            # Rounded up, so that the position read from it is not before the end of the forward pass.
            self.base_done = done + -self.course.forward_ops * self.kernels // max(self.course.ops, 1)

    def extra_since(self, extra: int) -> int:
        """How many of the iterations that the job counts beside the board's are new."""
        before = extra if self.extra is None else self.extra
        self.extra = extra
        return max(extra - before, 0)

    def note_ends(self, now_ns: int, count: int, took_ns: int) -> None:
        """Note when iterations have ended; several reported together are taken to have ended at equal distances.

        They took so long together. Reports may be read long after, so that those before were earlier than it seemed.
        """
        before_ns = self.ends_ns[-1] if self.ends_ns else now_ns - took_ns
        if (late_ns := took_ns - (now_ns - before_ns)) > 0:
            before_ns -= late_ns
            self.ends_ns = deque((end_ns - late_ns for end_ns in self.ends_ns), self.ends_ns.maxlen)
        latest = range(max(count - (self.ends_ns.maxlen or count), 0) + 1, count + 1)
        self.ends_ns.extend(before_ns + (now_ns - before_ns) * each // count for each in latest)

    def iteration_begins(self, done: int) -> None:
        self.running, self.forward_passed, self.stalled = True, False, False
        self.base_done = self.first_done = done

    def iterations_end(self, done: int, count: int) -> None:
        """The running iteration has ended, or `count` of them since it began."""
        if self.running and done > self.first_done:
            self.kernels = max((done - self.first_done) // count, 1)
        self.running = self.stalled = False
