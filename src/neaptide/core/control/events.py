"""What happens to jobs: an engine reports it, the ledger and the policy read it, the log keeps it.

Times are whole nanoseconds since the run began, in virtual or in real time alike.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from neaptide.core.traces.trace import Phase

# What a log may say; a reader of a damaged one need not fear other values.
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """Something that happened at a time."""

    at_ns: Nanoseconds


class JobArrived(Event, frozen=True, tag="job_arrived"):
    """A job has arrived and asks to be admitted."""

    job: str


class RequestArrived(Event, frozen=True, tag="request_arrived"):
    """Samples for an inference job, one or several; a sample is served when an iteration that took it ends.

    A request that is `expected` has reached the program, which has not called its model for it yet: no iteration can
    serve it before its RequestCalled. Of a request that is `tracked` a RequestAnswered will come.
    """

    job: str
    count: int = 1
    # When it reached the program; None: now. A request with a deadline of its own counts as if it had the job's
    # deadline and had arrived so much earlier or later.
    arrived_ns: Nanoseconds | None = None
    expected: bool = False
    tracked: bool = False


class RequestCalled(Event, frozen=True, tag="request_called"):
    """The program calls its model for a tracked request, the first time or again.

    If it `joins`, the iteration that runs or comes next serves it beside others; otherwise it waits for one of its own.
    """

    job: str
    arrived_ns: Nanoseconds
    joins: bool = False


class RequestAnswered(Event, frozen=True, tag="request_answered"):
    """The program has answered a tracked request, perhaps without having called its model for it."""

    job: str
    arrived_ns: Nanoseconds
    took_ns: Nanoseconds  # from when it reached the program to its answer


class CallWithdrawn(Event, frozen=True, tag="call_withdrawn"):
    """No iteration is to come for the program's last call of its model. On real processes only.

    The call launched nothing, and an iteration that was started for it has not begun; or it ran without having been
    started, as while the daemon was silent.
    """

    job: str


class PhaseEnded(Event, frozen=True, tag="phase_ended"):
    """The device has passed the last op of a phase of the job's running iteration."""

    job: str
    phase: Phase


class IterationEnded(Event, frozen=True, tag="iteration_ended"):
    """The device has passed the last op of the job's running iteration; of a job that is alone, perhaps of several."""

    job: str
    # From the permit of its first launch (in virtual time, its start), or from the end of the job's previous iteration
    # if that is later, to its last op; for several iterations, the sum.
    took_ns: Nanoseconds
    arrivals_ns: tuple[Nanoseconds, ...] = ()  # of the requests that it served
    iterations: Annotated[int, msgspec.Meta(ge=1, le=2**32)] = 1
    # How many measured iterations the work amounts to; None: `iterations`.
    work: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None


class JobStalled(Event, frozen=True, tag="job_stalled"):
    """The job's next op waits for memory: other jobs hold more than was expected."""

    job: str


class JobEvicted(Event, frozen=True, tag="job_evicted"):
    """The engine moves the job's bytes to the host, to make room for another job (core.rules.eviction).

    It does so for the oldest waiting iteration when all running iterations wait for memory. On real processes it also
    does so for an iteration that starves while others run, and for a new job that waits for memory.

    The bytes of an `unresponsive` job stay on the device and are taken off the budget; policies do not see the job. A
    job that was suspended or queued when it stopped responding is so still when it responds again.
    """

    job: str
    unresponsive: bool = False


class JobGrew(Event, frozen=True, tag="job_grew"):
    """The job needed more than was expected; from now on it is expected to need this much, in leases.

    A job says so after an iteration that needed more than any before it. The engine says so when it had to evict a job
    although all of them should have fitted.
    """

    job: str
    peak_bytes: Bytes
    at_rest_bytes: Bytes = 0  # between iterations; 0: as before


class JobMeasured(Event, frozen=True, tag="job_measured"):
    """What is known of a job that is here was corrected: one of its iterations takes this long alone.

    If its iterations have changed, the log has its new trace in a line before this one.
    """

    job: str
    solo_ns: int


class JobEnded(Event, frozen=True, tag="job_ended"):
    """The job has done all its iterations and holds nothing."""

    job: str
    waited_ns: Nanoseconds = 0  # on real processes: how long it could not run because of other jobs
    stalled_ns: Nanoseconds = 0  # of these, how long it waited for memory inside iterations


class JobFailed(Event, frozen=True, tag="job_failed"):
    """The job ended without having done its iterations."""

    job: str
    reason: str
    waited_ns: Nanoseconds = 0  # as in JobEnded
    stalled_ns: Nanoseconds = 0


class JobLeft(Event, frozen=True, tag="job_left"):
    """The job's process goes on without the engine: its connection ended, or it has joined again."""

    job: str


class JobSuspended(Event, frozen=True, tag="job_suspended"):
    """The job's bytes are in host memory now."""

    job: str


class JobResumed(Event, frozen=True, tag="job_resumed"):
    """The job's bytes are on the device again; or still, `kept` because the host had no memory for them."""

    job: str
    kept: bool = False


class BudgetChanged(Event, frozen=True, tag="budget_changed"):
    """From now on all jobs together may hold this much. Held memory may exceed the new budget for a while."""

    budget_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**60)]
    # On real processes: the budget as the user set it. Policies are told less while jobs that they do not know, because
    # they are new or do not respond, hold a part of it. 0: the same.
    user_bytes: Bytes = 0

    @property
    def whole_bytes(self) -> int:
        """The budget as the user set it."""
        return self.user_bytes or self.budget_bytes


class Woken(Event, frozen=True, tag="woken"):
    """The time has come at which the policy asked to be woken."""
