"""Puts a daemon's log before its policy again: the same events and sights must lead to the same actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller, Decided, Entry, Refused
from neaptide.core.control.engine import Observation
from neaptide.core.control.job import Job
from neaptide.core.control.log_format import Header, Joined, Seen, decode_line
from neaptide.core.control.policy import Need, Policy
from neaptide.core.traces.trace_format import decode


@dataclass(slots=True)
class _Moment:
    """One event, what came before it, what was seen then, and what was decided."""

    event: ev.Event
    joined: list[Joined]
    seen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    answers: list[Decided | Refused] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """An event that was answered otherwise."""

    event: ev.Event
    logged: tuple[Decided | Refused, ...]
    replayed: tuple[Decided | Refused, ...]


class _ReplayEngine:
    """Shows what the log says was seen, and does nothing."""

    def __init__(self) -> None:
        self.seen: Mapping[str, tuple[int, int]] = {}

    @property
    def supplies(self) -> frozenset[Need]:
        return frozenset(Need)

    @property
    def now_ns(self) -> int:
        return 0

    def next_event(self) -> ev.Event | None:
        return None

    def carry_out(self, action: act.Action) -> None:
        pass

    def observe(self, job: str) -> Observation:
        return Observation(*self.seen.get(job, (0, 0)))


def replay(log: Path, traces: Path, policy: Policy) -> list[Difference]:
    """The events that the policy answers otherwise than the log says; none if all is well.

    The log must begin where its daemon began, and each job's trace be kept in the folder `traces`.
    """
    lines = iter(log.read_bytes().splitlines())
    header = decode_line(next(lines))
    if not isinstance(header, Header):
        raise ValueError(f"{log}: the first line is no header")
    engine = _ReplayEngine()
    answers: list[Decided | Refused] = []

    def note(entry: Entry) -> None:
        if isinstance(entry, Decided | Refused):
            answers.append(entry)

    controller = Controller((), header.budget_bytes, policy, engine, note)
    differences = []
    for moment in _moments(lines):
        for joined in moment.joined:
            controller.ledger.add(_job(joined, traces))
        engine.seen = moment.seen
        answers.clear()
        controller.handle(moment.event)
        if answers != moment.answers:
            differences.append(Difference(moment.event, tuple(moment.answers), tuple(answers)))
    return differences


def _moments(lines: Iterator[bytes]) -> Iterator[_Moment]:
    moment: _Moment | None = None
    joined: dict[str, Joined] = {}
    for line in lines:
        match decode_line(line):
            case Seen() as seen if moment is not None:
                moment.seen = seen.jobs
            case Joined() as job:
                joined[job.facts.name] = job
            case ev.Event() as event:
                if moment is not None:
                    yield moment
                now = [
                    job for job in joined.values() if isinstance(event, ev.JobArrived) and job.facts.name == event.job
                ]
                moment = _Moment(event, now)
                for job in now:
                    del joined[job.facts.name]
            case Decided() | Refused() as answer if moment is not None:
                moment.answers.append(answer)
    if moment is not None:
        yield moment


def _job(joined: Joined, traces: Path) -> Job:
    facts = joined.facts
    return Job(
        name=facts.name,
        trace=decode((traces / joined.trace).read_bytes()),
        kind=facts.kind,
        iterations=facts.iterations,
        priority=joined.priority,
        deadline_seconds=None if facts.deadline_ns is None else facts.deadline_ns / 1e9,
    )
