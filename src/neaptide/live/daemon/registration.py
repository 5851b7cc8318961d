"""How jobs join the daemon and leave it: Hello, the measurement, the arrival at the controller, and the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller
from neaptide.core.control.job import Job, JobState
from neaptide.core.control.log_format import Joined, Line, facts_of_job
from neaptide.core.traces.leases import LeaseOverhead
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import decode
from neaptide.core.units import format_bytes
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, Stage
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.measuring import Measuring
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths


class RefusedError(ValueError):
    """The daemon does not take the job; one clear line."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a job's iteration."""

    trace: Trace
    encoded: bytes  # the same
    overhead: LeaseOverhead


class Registration:
    """Adds jobs to the engine, the controller and the log, and removes them."""

    def __init__(
        self,
        engine: LiveEngine,
        controller: Controller,
        measuring: Measuring,
        paths: RuntimePaths,
        note: Callable[[Line], None],
    ) -> None:
        self._engine = engine
        self._controller = controller
        self._measuring = measuring
        self._paths = paths
        self._note = note
        self.joined: dict[str, Joined] = {}  # by name; a new log file begins with these lines

    def attach(
        self, hello: say.Hello, answer: Callable[[say.FromDaemon], None], hang_up: Callable[[], None]
    ) -> AttachedJob:
        """Attach a job and welcome it; RefusedError when the daemon cannot take it."""
        if hello.version != say.VERSION:
            raise RefusedError(f"the job speaks version {hello.version} of the protocol, the daemon {say.VERSION}")
        start_time = self._start_time(hello)
        attached = AttachedJob(self._free_name(hello.job), hello, start_time, answer, hang_up)
        self._engine.add(attached)
        answer(say.Welcome(measure=not _was_measured(hello)))
        return attached

    def begin(self, attached: AttachedJob, budget_bytes: int) -> None:
        """Have an attached job measured, or take over an earlier measurement; RefusedError when it does not fit."""
        hello = attached.hello
        if _was_measured(hello):
            trace = hello.trace or b""
            measured = _Measured(decode(trace), trace, LeaseOverhead(*hello.lease_overhead))
            self._arrive(attached, measured, hello.iterations, budget_bytes)
        else:
            self._measuring.add(attached)

    def profiled(self, attached: AttachedJob, message: say.Profiled, budget_bytes: int) -> None:
        """Admit a measured job to the controller; RefusedError when it does not fit the budget."""
        if attached.arrived:
            raise say.ProtocolError("the job was measured before")
        left = None if attached.hello.iterations is None else attached.hello.iterations - message.measured
        measured = _Measured(decode(message.trace), message.trace, LeaseOverhead(*message.lease_overhead))
        self._arrive(attached, measured, left, budget_bytes)

    def _arrive(self, attached: AttachedJob, measured: _Measured, iterations: int | None, budget_bytes: int) -> None:
        hello = attached.hello
        job = Job(
            name=attached.name,
            trace=measured.trace,
            kind=hello.kind,
            iterations=iterations if iterations is not None and iterations > 0 else None,
            priority=hello.priority,
            deadline_seconds=hello.deadline_seconds,
        )
        account = self._controller.ledger.add(job, measured.overhead)
        if account.profile.peak_bytes > budget_bytes:
            self._controller.ledger.forget(job.name)
            raise RefusedError(
                f"job {job.name} needs {format_bytes(account.profile.peak_bytes)} and the budget is "
                f"{format_bytes(budget_bytes)}; raise it (neaptide budget) or make the job smaller"
            )
        attached.becomes(job, account.profile)
        attached.stage = Stage.ARRIVED
        attached.arrived_ns = self._engine.now_ns
        self._write_down(attached, job, measured)
        self._engine.permits.jobs_changed()
        self._engine.post(ev.JobArrived(attached.arrived_ns, job.name))
        self._controller.run()
        if account.state is JobState.QUEUED:  # its bytes are on the device from being measured
            self._engine.host_moves.evict(attached, EvictionReason.QUEUE)
        self._measuring.over(attached)

    def gone(self, attached: AttachedJob, failure: str | None) -> None:
        """Remove a job that has ended, or whose process has."""
        now_ns = self._engine.now_ns
        if attached.arrived:
            ended = ev.JobEnded(now_ns, attached.name)
            self._engine.post(ended if failure is None else ev.JobFailed(now_ns, attached.name, failure))
        self._engine.remove(attached)
        self._controller.run()
        if attached.arrived:
            self._controller.ledger.forget(attached.name)
        self.joined.pop(attached.name, None)
        self._measuring.over(attached)

    def _start_time(self, hello: say.Hello) -> int:
        for slot in self._engine.board.snapshot().slots:
            if slot.slot == hello.slot and slot.pid == hello.pid:
                if any(other.slot == hello.slot for other in self._engine.jobs.values()):
                    raise RefusedError(f"slot {hello.slot} of the board belongs to a job that is attached already")
                return slot.start_time
        raise RefusedError(f"process {hello.pid} does not have slot {hello.slot} on {self._engine.board.path}")

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._engine.jobs:
            number += 1
            name = f"{wanted}-{number}"
        return name

    def _write_down(self, attached: AttachedJob, job: Job, measured: _Measured) -> None:
        assert attached.profile is not None
        path = self._paths.traces / f"{_file_name(job.name)}.trace"
        with suppress(OSError):  # only reports and replay need it, and the disk may be full
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(measured.encoded)
        facts = facts_of_job(job, attached.profile)
        assert attached.arrived_ns is not None
        joined = Joined(
            at_ns=attached.arrived_ns,
            facts=facts,
            pid=attached.hello.pid,
            priority=job.priority,
            trace=path.name,
            lease_overhead=astuple(measured.overhead),
        )
        self.joined[job.name] = joined
        self._note(joined)


def _was_measured(hello: say.Hello) -> bool:
    return hello.resumed and hello.trace is not None


def _file_name(job: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in job)
