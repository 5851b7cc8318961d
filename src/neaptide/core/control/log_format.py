"""The lines of an event log, of a simulation or of a daemon: every metric can be computed from them again.

A run begins with a header. The jobs of a daemon are not known then, so each gets a line of its own when it joins. With
each event a daemon also logs what it saw of the jobs, so that the log can be replayed. It also logs the held memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from neaptide import __version__
from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Handled, Refused
from neaptide.core.control.engine import Observation
from neaptide.core.control.events import Bytes, Nanoseconds
from neaptide.core.control.job import Job, JobKind
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Phase

FORMAT = 2
_EVENTS = {kind.__struct_config__.tag: kind for kind in ev.Event.__subclasses__()}
_ACTIONS = {kind.__struct_config__.tag: kind for kind in act.Action.__subclasses__()}
_ENCODER = msgspec.json.Encoder()


class LogFormatError(ValueError):
    """The log was written by another version. The message is one line."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known of a job to judge its run."""

    name: str
    kind: JobKind
    iterations: Annotated[int, msgspec.Meta(ge=1, le=2**60)] | None  # None: until it is stopped
    solo_ns: Nanoseconds  # one iteration without a plan, alone on the device
    batch: Annotated[int, msgspec.Meta(ge=1, le=2**60)]
    persistent_bytes: Bytes
    framework_bytes: Bytes = 0  # of the persistent ones, those in no tensor of the program
    peak_bytes: Bytes
    deadline_ns: Nanoseconds | None = None
    deadline_quantile: Annotated[float, msgspec.Meta(gt=0, lt=1)] = DEFAULT_QUANTILE
    latency_critical: bool = False


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="log", tag="run"):
    """The first line of a run."""

    format: int = FORMAT
    version: str = __version__
    scenario: str
    policy: str
    seed: int
    device: str
    budget_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**60)]
    user_bytes: Bytes = 0  # as in BudgetChanged
    overflow: bool = False  # as in a view
    holds_launched: bool = False  # as in a view
    end_ns: Nanoseconds  # 0 in a daemon's log: its run ends with the last line
    jobs: tuple[JobFacts, ...]


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag_field="log", tag="job"):
    """A job that joined a daemon; its JobArrived follows this line."""

    at_ns: Nanoseconds
    facts: JobFacts
    pid: int
    priority: int = 0
    trace: str = ""  # the file in which its trace is kept, beside the log
    lease_overhead: tuple[int, int, int] = (0, 0, 0)  # bytes that it leased beyond those that its tensors needed
    measuring_ns: Nanoseconds = 0  # for how long it ran iterations without permits, to be measured
    measured_iterations: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0  # how many


class HeldMemory(msgspec.Struct, frozen=True, tag_field="log", tag="memory"):
    """The bytes that each job holds from this time on; "" stands for processes that are not jobs of the daemon."""

    at_ns: Nanoseconds
    held_bytes: Mapping[str, Bytes]

    @property
    def total_bytes(self) -> int:
        return sum(self.held_bytes.values())


class Lost(msgspec.Struct, frozen=True, tag_field="log", tag="lost"):
    """Lines that came here could not be written, as on a full disk."""

    lines: Annotated[int, msgspec.Meta(ge=1, le=2**60)]


Line = Header | Joined | HeldMemory | Lost | Handled | Entry


def facts_of_job(job: Job, profile: Profile) -> JobFacts:
    """The facts of one job without a plan."""
    return JobFacts(
        name=job.name,
        kind=job.kind,
        iterations=job.iterations,
        solo_ns=profile.solo_ns,
        batch=profile.batch,
        persistent_bytes=profile.persistent_bytes,
        framework_bytes=profile.framework_bytes,
        peak_bytes=profile.peak_bytes,
        deadline_ns=None if job.deadline_seconds is None else round(job.deadline_seconds * 1e9),
        deadline_quantile=job.deadline_quantile,
        latency_critical=job.latency_critical,
    )


def facts_of(jobs: Iterable[Job]) -> tuple[JobFacts, ...]:
    """The facts of jobs; copies of one job share a trace, which is read once."""
    profiles: dict[int, Profile] = {}
    found = []
    for job in jobs:
        if id(job.trace) not in profiles:
            profiles[id(job.trace)] = Profile.of(job.trace)
        found.append(facts_of_job(job, profiles[id(job.trace)]))
    return tuple(found)


def encode_line(line: Line) -> bytes:
    """One line, without its end."""
    if isinstance(line, Handled):
        return encode_line(line.event)[:-1] + b',"seen":' + _ENCODER.encode(line.seen) + b"}"
    if isinstance(line, ev.PhaseEnded):  # a phase is a number, and a reader wants its name
        return _ENCODER.encode({**msgspec.to_builtins(line), "phase": line.phase.name.lower()})
    return _ENCODER.encode(line)


def decode_line(line: bytes) -> Line:
    """What a line says; ValueError, LookupError, AttributeError or TypeError when it is no line of a log."""
    said: dict[str, Any] = msgspec.json.decode(line)
    if "event" in said:
        return _event(said)
    match said["log"]:
        case "run":
            return _header(said)
        case "job":
            return msgspec.convert(said, Joined)
        case "memory":
            return msgspec.convert(said, HeldMemory)
        case "lost":
            return msgspec.convert(said, Lost)
    action = msgspec.convert(said["action"], _ACTIONS[said["action"]["action"]])
    at_ns = msgspec.convert(said["at_ns"], Nanoseconds)
    if said["log"] == "decided":
        return Decided(at_ns, action)
    return Refused(at_ns, action, msgspec.convert(said["reason"], str))


def _header(said: dict[str, Any]) -> Header:
    if (found := said.get("format")) != FORMAT:
        raise LogFormatError(f"the log has format {found}, and this version of neaptide reads format {FORMAT}")
    return msgspec.convert(said, Header)


def _event(said: dict[str, Any]) -> ev.Event | Handled:
    seen = said.pop("seen", None)
    if "phase" in said:
        said["phase"] = Phase[said["phase"].upper()]
    event: ev.Event = msgspec.convert(said, _EVENTS[said["event"]])
    return event if seen is None else Handled(event, msgspec.convert(seen, dict[str, Observation]))
