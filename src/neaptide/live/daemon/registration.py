"""How jobs come to the daemon and go: Hello, being measured, arriving for the controller, and the end."""

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
    """The job cannot be taken; one clear line."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a job's iteration."""

    trace: Trace
    encoded: bytes  # the same
    overhead: LeaseOverhead


class Registration:
    """Takes jobs in and lets them go."""

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
        self.joined: dict[str, Joined] = {}  # what the log must say of those that are here

    def hello(
        self,
        hello: say.Hello,
        answer: Callable[[say.FromDaemon], None],
        hang_up: Callable[[], None],
        budget_bytes: int,
    ) -> AttachedJob:
        """A job is here. RefusedError when it cannot be taken."""
        if hello.version != say.VERSION:
            raise RefusedError(f"the job speaks version {hello.version} of the protocol, the daemon {say.VERSION}")
        start_time = self._start_time(hello)
        trace = None
        if hello.resumed and hello.trace is not None:
            trace = decode(hello.trace)
        resident = AttachedJob(self._free_name(hello.job), hello, start_time, answer, hang_up)
        self._engine.add(resident)
        answer(say.Welcome(measure=trace is None))
        if trace is not None:
            measured = _Measured(trace, hello.trace or b"", LeaseOverhead(*hello.lease_overhead))
            self._arrive(resident, measured, hello.iterations, budget_bytes)
        elif hello.ready:
            self._measuring.ready(resident)
        return resident

    def profiled(self, resident: AttachedJob, message: say.Profiled, budget_bytes: int) -> None:
        """A newcomer was measured. RefusedError when it does not fit."""
        if resident.arrived:
            raise say.ProtocolError("the job was measured already")
        left = None if resident.hello.iterations is None else resident.hello.iterations - message.measured
        measured = _Measured(decode(message.trace), message.trace, LeaseOverhead(*message.lease_overhead))
        self._arrive(resident, measured, left, budget_bytes)

    def _arrive(self, resident: AttachedJob, measured: _Measured, iterations: int | None, budget_bytes: int) -> None:
        hello = resident.hello
        job = Job(
            name=resident.name,
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
        resident.becomes(job, account.profile)
        resident.stage = Stage.ARRIVED
        resident.arrived_ns = self._engine.now_ns
        self._write_down(resident, job, measured)
        self._engine.crowd_changed()
        self._engine.post(ev.JobArrived(resident.arrived_ns, job.name))
        self._controller.run()
        if account.state is JobState.QUEUED:  # it was measured with its bytes on the device, and they are not leased
            self._engine.residence.leave(resident, EvictionReason.QUEUE)
        self._measuring.over(resident)

    def gone(self, resident: AttachedJob, failure: str | None) -> None:
        """A job has ended, or its process has."""
        now_ns = self._engine.now_ns
        if resident.arrived:
            ended = ev.JobEnded(now_ns, resident.name)
            self._engine.post(ended if failure is None else ev.JobFailed(now_ns, resident.name, failure))
        self._engine.remove(resident)
        self._controller.run()
        if resident.arrived:
            self._controller.ledger.forget(resident.name)
        self.joined.pop(resident.name, None)
        self._measuring.over(resident)

    def _start_time(self, hello: say.Hello) -> int:
        for slot in self._engine.board.snapshot().slots:
            if slot.slot == hello.slot and slot.pid == hello.pid:
                if any(other.slot == hello.slot for other in self._engine.residents.values()):
                    raise RefusedError(f"slot {hello.slot} of the board is with the daemon already")
                return slot.start_time
        raise RefusedError(f"process {hello.pid} has not slot {hello.slot} on {self._engine.board.path}")

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._engine.residents:
            number += 1
            name = f"{wanted}-{number}"
        return name

    def _write_down(self, resident: AttachedJob, job: Job, measured: _Measured) -> None:
        assert resident.profile is not None
        path = self._paths.traces / f"{_file_name(job.name)}.trace"
        with suppress(OSError):  # it is for reading afterwards, and the disk may be full
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(measured.encoded)
        facts = facts_of_job(job, resident.profile)
        assert resident.arrived_ns is not None
        joined = Joined(
            at_ns=resident.arrived_ns,
            facts=facts,
            pid=resident.hello.pid,
            priority=job.priority,
            trace=path.name,
            lease_overhead=astuple(measured.overhead),
        )
        self.joined[job.name] = joined
        self._note(joined)


def _file_name(job: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in job)
