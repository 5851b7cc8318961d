"""What happens to jobs: an engine reports it, the ledger and the policy read it, the log keeps it.

Times are whole nanoseconds since the run began, in virtual or in real time alike.
"""

from __future__ import annotations

import msgspec

from neaptide.core.traces.trace import Phase


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """Something that happened at a time."""

    at_ns: int


class JobArrived(Event, frozen=True, tag="job_arrived"):
    """A job has arrived and asks to be admitted."""

    job: str


class RequestArrived(Event, frozen=True, tag="request_arrived"):
    """A sample for an inference job; it counts as served when an iteration that took it ends."""

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
    took_ns: int
    arrivals_ns: tuple[int, ...] = ()  # of the requests that it served
    iterations: int = 1
    work: float | None = None  # how many measured iterations the work amounts to; None: `iterations`


class JobStalled(Event, frozen=True, tag="job_stalled"):
    """The job's next op waits for memory: other jobs hold more than was expected."""

    job: str


class JobEvicted(Event, frozen=True, tag="job_evicted"):
    """The engine moves the job's bytes to the host, to make room for another job (core.rules.eviction).

    It does so for the oldest waiting iteration when all running iterations wait for memory. On real processes it also
    does so for an iteration that starves while others run, and for a new job that is measured.

    The bytes of an `unresponsive` job stay on the device and are taken off the budget; policies do not see the job.
    """

    job: str
    unresponsive: bool = False


class JobGrew(Event, frozen=True, tag="job_grew"):
    """An iteration needed more than any before it; from now on the job is expected to need this much."""

    job: str
    peak_bytes: int


class JobEnded(Event, frozen=True, tag="job_ended"):
    """The job has done all its iterations and holds nothing."""

    job: str


class JobFailed(Event, frozen=True, tag="job_failed"):
    """The job ended without having done its iterations."""

    job: str
    reason: str


class JobSuspended(Event, frozen=True, tag="job_suspended"):
    """The job's bytes are in host memory now."""

    job: str


class JobResumed(Event, frozen=True, tag="job_resumed"):
    """The job's bytes are on the device again."""

    job: str


class BudgetChanged(Event, frozen=True, tag="budget_changed"):
    """From now on all jobs together may hold this much. Held memory may exceed the new budget for a while."""

    budget_bytes: int


class Woken(Event, frozen=True, tag="woken"):
    """The time has come at which the policy asked to be woken."""
