"""Jobs described by their tides, and what a run of them shows, in words that every engine shares.

Amounts are leases of `LEASE` bytes. A tide's steps are the ops of one iteration: how many leases it holds above its
persistent ones while the op runs, for how long, and on how many of the device's two SMs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from builders import Op, Tensor, make_trace
from neaptide.core.control.actions import Action, Admit, Start, WakeAt
from neaptide.core.control.controller import Decided, Entry, Handled, Refused
from neaptide.core.control.events import Event, IterationEnded, JobEnded, JobFailed
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import decode_line
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.framework import with_framework
from neaptide.core.traces.trace import Kind, Phase, Trace

LEASE = 2 << 20
SMS = 2
MS = 0.001
LOOK_NS = 2_000_000  # between the looks of a policy that waits for something


@dataclass(frozen=True, slots=True)
class Step:
    """One op. On engines in real time it lasts until the job `until` has ended or waits for memory, if one is named."""

    leases: float
    seconds: float = 2 * MS
    width: int = 1
    phase: Phase = Phase.FORWARD
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tide:
    """One job."""

    name: str
    steps: tuple[Step, ...]
    persistent: float = 1
    framework: float = 0  # leases of memory that is in no tensor of the program
    iterations: int = 1
    kind: JobKind = JobKind.TRAINING
    requests: tuple[float, ...] = ()  # when each sample comes to an inference job
    waits_for_requests: bool = False  # also on processes each comes at its time; otherwise one after the other
    batch: int = 1
    deadline_seconds: float | None = None
    latency_critical: bool = False
    ahead: bool = False  # launches without waiting for the device
    says_iterations: bool = True
    priority: int = 0
    known: Tide | None = None  # what an earlier run of the program measured, right or wrong
    memory: float | None = None  # leases that its user says it will hold

    # Misbehaviour, from the first iteration after those that were measured on.
    more: float = 0  # leases more than its trace says, at the top of its tide
    more_in: range | None = None  # in these iterations only
    pins: int = 0  # leases that it keeps for ever with a small block in each, from its first own iteration on
    stops_in: int | None = None  # its process is stopped in the middle of this iteration until the others have ended
    stops_for: float | None = None  # or for so many seconds
    cannot_move: bool = False  # the host has no memory for its bytes
    killed_in: int | None = None  # its process is killed in the middle of this iteration
    killed_after: float | None = None  # or after so many seconds

    @property
    def trace(self) -> Trace:
        """What the job says of its iteration."""
        return trace_of(self)

    def blocks(self, more: float = 0) -> list[Tensor]:
        """The ephemeral tensors of an iteration that holds so many more leases than its trace says."""
        top = max(step.leases for step in self.steps)
        levels = [round((step.leases + (more if step.leases == top else 0)) * LEASE) for step in self.steps]
        found: list[Tensor] = []
        alive: list[tuple[int, int]] = []  # bytes and birth; the newest dies first
        for op, level in enumerate([*levels, 0]):
            held = sum(size for size, _ in alive)
            while held > level:
                size, born = alive.pop()
                found.append(Tensor(bytes=size, born=born, died=op - 1, kind=Kind.ACTIVATION))
                held -= size
            if held < level:
                alive.append((level - held, op))
        return found


def trace_of(tide: Tide) -> Trace:
    rows = [
        Op(phase=_phase(tide, step), seconds=step.seconds, host_seconds=1e-6, fill=step.width / SMS)
        for step in tide.steps
    ]
    size = round(tide.persistent * LEASE)
    weight = Tensor(bytes=size, born=-1, died=len(rows), kind=Kind.PARAMETER, label="weight")
    trace = make_trace(
        rows, [*tide.blocks(), weight], name=tide.name, batch=tide.batch, device="soft", asynchronous=tide.ahead
    )
    trace = with_framework(trace, round(tide.framework * LEASE))
    trace.check()
    return trace


def _phase(tide: Tide, step: Step) -> Phase:
    return Phase.INFERENCE if tide.kind is JobKind.INFERENCE else step.phase


def rise_and_fall(top: float, seconds: float = 8 * MS) -> tuple[Step, ...]:
    """A tide that rises to `top` leases in two equal steps and falls in two; the backward pass begins at the top."""
    each = seconds / 4
    up = [Step(top / 2, each), Step(top, each)]
    return (*up, *(Step(step.leases, each, phase=Phase.BACKWARD) for step in reversed(up)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Jobs, which arrive in this order, a budget, and a policy."""

    tides: Sequence[Tide]
    budget: int
    policy: Policy
    budget_changes: Sequence[
        tuple[float, float]
    ] = ()  # seconds after all jobs have arrived, and the budget from then on


_Kind = TypeVar("_Kind", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a run showed."""

    scene: Scene
    entries: Sequence[Entry]
    views: Sequence[View]  # what the policy saw
    held: Mapping[str, Sequence[tuple[int, float]]]  # per job: from this time (ns) on it held so many leases
    most_held: float  # leases, all jobs together
    held_at_the_end: float

    def events(self, kind: type[_Kind], job: str | None = None) -> list[_Kind]:
        found = [entry for entry in self.entries if isinstance(entry, kind)]
        return found if job is None else [event for event in found if event.job == job]  # type: ignore[attr-defined]

    def decided(self, kind: type[Action], job: str | None = None) -> list[Decided]:
        found = [entry for entry in self.entries if isinstance(entry, Decided) and isinstance(entry.action, kind)]
        return found if job is None else [entry for entry in found if entry.action.job == job]  # type: ignore[attr-defined]

    def refused(self, kind: type[Action]) -> list[Refused]:
        return [entry for entry in self.entries if isinstance(entry, Refused) and isinstance(entry.action, kind)]

    def place(self, entry: Entry) -> int:
        """Where it is in the log."""
        return next(index for index, other in enumerate(self.entries) if other is entry)

    def iterations(self, job: str) -> int:
        return sum(event.iterations for event in self.events(IterationEnded, job))

    @property
    def ended(self) -> set[str]:
        return {event.job for event in self.events(JobEnded)}

    @property
    def failed(self) -> dict[str, str]:
        return {event.job: event.reason for event in self.events(JobFailed)}

    def seen(self, job: str) -> Iterator[tuple[View, JobView]]:
        """The job in each view that shows it."""
        for view in self.views:
            for each in view.jobs:
                if each.name == job:
                    yield view, each

    def reached(self, job: str, leases: float) -> int:
        """When it first held so much."""
        return next(at_ns for at_ns, held in self.held[job] if held >= leases)

    def check_all_ended(self) -> None:
        """Every job has done its iterations, within the budget, and nothing is left."""
        names = {tide.name for tide in self.scene.tides}
        assert (self.ended, self.failed) == (names, {})
        for tide in self.scene.tides:
            assert self.iterations(tide.name) == (tide.iterations if not tide.requests else len(tide.requests))
        budget = max([self.scene.budget, *(budget for _, budget in self.scene.budget_changes)])
        assert self.most_held <= budget
        assert self.held_at_the_end == 0


def read_entries(log: Path) -> list[Entry]:
    """The entries of a daemon's log."""
    lines = [decode_line(line) for line in log.read_bytes().splitlines()]
    unwrapped = [line.event if isinstance(line, Handled) else line for line in lines]
    return [line for line in unwrapped if isinstance(line, Event | Decided | Refused)]


class Engine(Protocol):
    """Runs a scene to its end."""

    name: str

    def run(self, scene: Scene) -> Facts: ...


class Watched(Policy):
    """The policy of a scene: asked from when all jobs have arrived that fit the budget; what it sees is kept."""

    name = "watched"

    def __init__(self, scene: Scene) -> None:
        self._policy = policy = scene.policy
        self.name = policy.name  # type: ignore[misc]
        self.needs = policy.needs  # type: ignore[misc]
        self.oversubscribes = policy.oversubscribes  # type: ignore[misc]
        self._awaited = {tide.name for tide in scene.tides if tide.trace.peak_bytes <= scene.budget * LEASE}
        self.views: list[View] = []

    @property
    def begun(self) -> bool:
        return not self._awaited

    def decide(self, view: View) -> Sequence[Action]:
        self._awaited -= {job.name for job in view.jobs}
        if not self.begun:
            return ()
        self.views.append(view)
        return self._policy.decide(view)


class StartsWhen(Policy):
    """Admits and starts what it can, except jobs with a condition: these start when it holds."""

    name = "starts-when"

    def __init__(self, **conditions: Callable[[View], bool]) -> None:
        self._conditions = conditions

    def decide(self, view: View) -> Sequence[Action]:
        admitted = [Admit(job.name) for job in view.queued]
        startable = [*(job.name for job in view.startable), *(action.job for action in admitted)]
        held_back = [name for name in startable if name in self._conditions and not self._conditions[name](view)]
        starts = [Start(name) for name in startable if name not in held_back]
        return [*admitted, *starts, *([WakeAt(view.now_ns + LOOK_NS)] if held_back else [])]


def holds(job: str, leases: float) -> Callable[[View], bool]:
    """Whether a job holds so much."""
    return lambda view: any(each.name == job and each.held_bytes >= leases * LEASE for each in view.jobs)


def both(*conditions: Callable[[View], bool]) -> Callable[[View], bool]:
    return lambda view: all(condition(view) for condition in conditions)


class Does(Policy):
    """Does what a function of the view says."""

    name = "does"

    def __init__(self, tell: Callable[[View], Sequence[Action]], needs: frozenset[Need] = frozenset()) -> None:
        self._tell = tell
        self.needs = needs  # type: ignore[misc]

    def decide(self, view: View) -> Sequence[Action]:
        return self._tell(view)
