"""A record of each job from the event log: its arrival, start and end, its iterations, and how long requests waited."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import JobFacts
from neaptide.core.rules.work import work_ns


@dataclass(slots=True)
class JobRecord:
    """One job's part of a run. `read_log` fills it; nothing changes it afterwards."""

    job: JobFacts
    until_ns: int  # the end of the log
    arrived_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None  # done or failed
    failure: str = ""
    iterations: int = 0
    device_ns: int = 0  # the device time that its iterations take alone
    requests: int = 0
    latencies_ns: list[int] = field(default_factory=list)
    waiting_ns: list[int] = field(default_factory=list)  # arrival times of requests that were not answered
    in_time: int = 0  # requests answered within the deadline
    tracked_ns: set[int] = field(default_factory=set)  # arrival times of requests whose answers the log has
    waited_ns: int = 0  # how long it could not run because of other jobs; 0 in virtual time
    stalled_ns: int = 0  # of these, how long it waited for memory inside iterations
    stalls: int = 0
    evictions: int = 0

    @property
    def endless(self) -> bool:
        """Whether the job trains until it is stopped, so that it has no completion time."""
        return self.job.kind is JobKind.TRAINING and self.job.iterations is None

    @property
    def done(self) -> bool:
        return self.ended_ns is not None and not self.failure and not self.endless

    @property
    def present_ns(self) -> int:
        if self.arrived_ns is None:
            return 0
        return (self.until_ns if self.ended_ns is None else self.ended_ns) - self.arrived_ns

    @property
    def completion_ns(self) -> int | None:
        return self.present_ns if self.done else None

    @property
    def queueing_ns(self) -> int:
        """From the job's arrival to its first iteration."""
        if self.arrived_ns is None:
            return 0
        if self.started_ns is None:
            return self.present_ns
        return self.started_ns - self.arrived_ns

    @property
    def work_ns(self) -> int:
        """The work that the job has done, in device time alone; a batch that is not full counts in part."""
        if self.job.kind is JobKind.INFERENCE:
            return len(self.latencies_ns) * self.job.solo_ns // self.job.batch
        return self.device_ns

    @property
    def against_alone(self) -> float:
        """The speed of the job's iterations, relative to running alone."""
        return self.device_ns / self.present_ns if self.present_ns else 0.0

    @property
    def slowdown(self) -> float:
        """The time the job was present over its work. Before the first iteration ends, that iteration is the work."""
        return self.present_ns / max(self.work_ns, self.job.solo_ns, 1)

    @property
    def due(self) -> int:
        """Requests that were answered, or whose deadline passed before the end of the log."""
        if self.job.deadline_ns is None:
            return 0
        late = sum(self.until_ns - arrival > self.job.deadline_ns for arrival in self.waiting_ns)
        return len(self.latencies_ns) + late

    def answer(self, at_ns: int, arrived_ns: int, took_ns: int) -> None:
        """A request was answered."""
        with suppress(ValueError):  # lines of the log were lost
            self.waiting_ns.remove(arrived_ns)
        self.latencies_ns.append(took_ns)
        self.in_time += self.job.deadline_ns is not None and at_ns - arrived_ns <= self.job.deadline_ns


def read_log(entries: Iterable[Entry], jobs: Iterable[JobFacts], end_ns: int) -> dict[str, JobRecord]:
    """Read the record of each job from a log that ended at `end_ns`."""
    records = {job.name: JobRecord(job, end_ns) for job in jobs}
    for entry in entries:
        if isinstance(entry, Refused | ev.Woken | ev.BudgetChanged):
            continue
        if isinstance(entry, Decided):
            if isinstance(entry.action, act.Start):
                record = records[entry.action.job]
                record.started_ns = entry.at_ns if record.started_ns is None else record.started_ns
        else:
            _note(records[entry.job], entry)  # type: ignore[attr-defined]
    return records


def _note(record: JobRecord, event: ev.Event) -> None:
    match event:
        case ev.JobArrived():
            if record.arrived_ns is None or record.ended_ns is not None:  # else it left, and has joined again
                record.arrived_ns, record.ended_ns, record.failure = event.at_ns, None, ""
        case ev.RequestArrived():
            arrived_ns = event.at_ns if event.arrived_ns is None else event.arrived_ns
            record.requests += event.count
            record.waiting_ns.extend([arrived_ns] * event.count)
            if event.tracked:
                record.tracked_ns.add(arrived_ns)
        case ev.RequestAnswered():
            record.answer(event.at_ns, event.arrived_ns, event.took_ns)
        case ev.CallWithdrawn():
            called = [each for each in record.waiting_ns if each not in record.tracked_ns]
            record.requests -= len(called)
            record.waiting_ns = [each for each in record.waiting_ns if each in record.tracked_ns]
        case ev.IterationEnded():
            record.iterations += event.iterations
            record.device_ns += work_ns(record.job.solo_ns, event.iterations, event.work)
            for arrived_ns in event.arrivals_ns:
                if arrived_ns not in record.tracked_ns:
                    record.answer(event.at_ns, arrived_ns, event.at_ns - arrived_ns)
        case ev.JobEnded():
            record.ended_ns, record.waited_ns, record.stalled_ns = event.at_ns, event.waited_ns, event.stalled_ns
        case ev.JobFailed():
            record.ended_ns, record.waited_ns, record.stalled_ns = event.at_ns, event.waited_ns, event.stalled_ns
            record.failure = event.reason
        case ev.JobStalled():
            record.stalls += 1
        case ev.JobEvicted(unresponsive=False):
            record.evictions += 1
