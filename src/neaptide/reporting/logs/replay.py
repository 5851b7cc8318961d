"""Replays a daemon's log: the same events and observations must lead to the same actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller, Decided, Handled, Note, Refused
from neaptide.core.control.engine import Observation
from neaptide.core.control.job import Job
from neaptide.core.control.log_format import Header, Joined, Line, Lost
from neaptide.core.control.policy import Need, Policy
from neaptide.core.traces.leases import LeaseOverhead
from neaptide.core.traces.trace_format import decode
from neaptide.reporting.logs.log_file import decoded

Answer = Decided | Refused


@dataclass(slots=True)
class _Moment:
    """One event, the jobs that were measured before it, and the policy's answers as they were logged."""

    handled: Handled
    joined: list[Joined]
    answers: list[Answer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """An event that the policy answers otherwise than the log says."""

    event: ev.Event
    logged: tuple[Answer, ...]
    replayed: tuple[Answer, ...]


class _ReplayEngine:
    """Shows what the log says was seen, and carries nothing out."""

    def __init__(self, header: Header) -> None:
        self.seen: Mapping[str, Observation] = {}
        there = {Need.OVERFLOW: header.overflow, Need.HOLDING: header.holds_launched}
        self.supplies = frozenset(need for need in Need if there.get(need, True))

    @property
    def now_ns(self) -> int:
        return 0

    def next_event(self) -> ev.Event | None:
        return None

    def carry_out(self, action: act.Action) -> None:
        pass

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        return {job: self.seen.get(job, Observation(0, 0)) for job in jobs}


def logged_policy(log: Path) -> str:
    """The name of the policy that decided in a log."""
    return _header(log).policy


def replay(log: Path, traces: Path, policy: Policy) -> list[Difference]:
    """The events that the policy answers otherwise than the log says; none if the log can be replayed.

    The log must begin where its daemon began, and the folder `traces` must have each job's trace.
    """
    header, lines = _header(log), _lines(log)
    engine = _ReplayEngine(header)
    answers: list[Answer] = []

    def note(each: Note) -> None:
        if not isinstance(each, Handled):
            answers.append(each)

    controller = Controller((), header.budget_bytes, policy, engine, note)
    differences = []
    known: set[str] = set()
    for moment in _moments(lines):
        known.update(joined.facts.name for joined in moment.joined)
        if (job := getattr(moment.handled.event, "job", None)) is not None and job not in known:
            raise ValueError(f"{log}: an event of job {job}, which has not joined; the log is damaged")
        for joined in moment.joined:
            measured = _job(joined, traces), LeaseOverhead(*joined.lease_overhead)
            if isinstance(moment.handled.event, ev.JobArrived):
                controller.ledger.add(*measured)
            else:
                controller.ledger.renew(*measured)
        engine.seen = moment.handled.seen
        answers.clear()
        controller.handle(moment.handled.event)
        if answers != moment.answers:
            differences.append(Difference(moment.handled.event, tuple(moment.answers), tuple(answers)))
    return differences


def _header(log: Path) -> Header:
    with log.open("rb") as file:
        header = decoded(file.readline(), 1, str(log))
    if not isinstance(header, Header):
        raise ValueError(f"{log}: the first line is not a header")
    return header


def _lines(log: Path) -> Iterator[Line]:
    """The lines after the header, without a last one that has no end."""
    for number, line in enumerate(log.read_bytes().splitlines(keepends=True), 1):
        if number > 1 and line.endswith(b"\n"):
            yield decoded(line, number, str(log))


def _moments(lines: Iterator[Line]) -> Iterator[_Moment]:
    moment: _Moment | None = None
    joined: dict[str, Joined] = {}
    for line in lines:
        match line:
            case Joined() as job:
                joined[job.facts.name] = job
            case Handled() as handled:
                if moment is not None:
                    yield moment
                known = handled.event.job if isinstance(handled.event, ev.JobArrived | ev.JobMeasured) else None
                moment = _Moment(handled, [joined.pop(known)] if known in joined else [])
            case Decided() | Refused() as answer if moment is not None:
                moment.answers.append(answer)
            case Lost(lines=count):
                raise ValueError(f"{count} lines of the log could not be written, so the run cannot be replayed")
    if moment is not None:
        yield moment


def _job(joined: Joined, traces: Path) -> Job:
    facts, path = joined.facts, traces / joined.trace
    if not path.is_file():
        raise ValueError(f"the trace of job {facts.name} was not kept: {path} is missing")
    return Job(
        name=facts.name,
        trace=decode(path.read_bytes()),
        kind=facts.kind,
        iterations=facts.iterations,
        priority=joined.priority,
        deadline_seconds=None if facts.deadline_ns is None else facts.deadline_ns / 1e9,
        deadline_quantile=facts.deadline_quantile,
        latency_critical=facts.latency_critical,
    )
