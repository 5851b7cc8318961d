"""How jobs join the daemon and leave it: Hello, the measurement, the arrival at the controller, and the end.

A job belongs to its connection before anything is done for it, and `gone` undoes whatever was done, so that no step
that fails leaves a part of a job behind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, replace

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller
from neaptide.core.control.job import Job, JobState
from neaptide.core.control.job_limits import numbered_name
from neaptide.core.control.log_format import Joined, Line, facts_of_job
from neaptide.core.traces.leases import LeaseOverhead
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import Decoded, TraceFormatError, try_decode
from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.daemon.attached_job import AttachedJob, Caller, EvictionReason, waits_for_budget
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.newcomers import Newcomers
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths

MOST_SAMPLES_OF_A_CALL = 4096  # as which one call of a serving job's model counts
_LONGEST_SECONDS = 1e6  # of one iteration


class RefusedError(ValueError):
    """The daemon does not take the job; one clear line."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a job's iteration."""

    trace: Trace
    encoded: bytes  # the same
    overhead: LeaseOverhead
    iterations: int | None  # that are left, if the job said how many it does
    measured: int = 0  # iterations that it has begun without permits
    measuring_ns: int = 0  # for how long


class Registration:
    """Adds jobs to the engine, the controller and the log, and removes them."""

    def __init__(
        self,
        engine: LiveEngine,
        controller: Controller,
        newcomers: Newcomers,
        tell_budget: Callable[[], None],
        paths: RuntimePaths,
        note: Callable[[Line], None],
    ) -> None:
        self._engine = engine
        self._controller = controller
        self._newcomers = newcomers
        self._tell_budget = tell_budget
        self._paths = paths
        self._note = note
        self._too_large: dict[AttachedJob, _Measured] = {}  # jobs that ran before, and wait for a larger budget
        self._again = 0  # how often jobs were measured again
        self.joined: dict[str, Joined] = {}  # by name; a new log file begins with these lines

    def check(self, hello: say.Hello, caller: Caller) -> int:
        """When the job's process started; RefusedError when the daemon cannot take the job. Changes nothing.

        The connection must come from the process that has the slot on the board. A process of another pid namespace
        cannot: the board takes processes of one namespace only.
        """
        if hello.version != say.VERSION:
            raise RefusedError(str(say.OtherVersionError(hello.version)))
        if hello.pid != caller.peer_pid:
            raise RefusedError(f"it says that it is process {hello.pid}, and its connection comes from another process")
        for slot in self._engine.board.snapshot().slots:
            if slot.slot == hello.slot and slot.pid == hello.pid:
                return slot.start_time
        raise RefusedError(f"process {hello.pid} does not have slot {hello.slot} on {self._engine.board.path}")

    def newcomer(self, hello: say.Hello, start_time: int, caller: Caller) -> AttachedJob:
        """The job that a caller introduces, under a name that no other job has. Changes nothing."""
        return AttachedJob(self._free_name(hello.job), hello, start_time, caller)

    def attach(self, attached: AttachedJob, trace: Decoded | None, budget_bytes: int, policy: str) -> None:
        """Welcome a job, and take over an earlier measurement if there is one; RefusedError when that is wrong."""
        hello = attached.hello
        attached.largest_budget_bytes = budget_bytes
        attached.counted_bytes = attached.expected_bytes
        self._engine.add(attached)
        attached.say(say.Welcome(not _was_measured(hello), attached.name, budget_bytes, policy))
        if _was_measured(hello):
            measured = _measured(hello.trace or b"", trace, hello.lease_overhead, hello.iterations)
            self._arrive(attached, measured, budget_bytes)
        self._tell_budget()

    def profiled(self, attached: AttachedJob, message: say.Profiled, trace: Decoded | None, budget_bytes: int) -> None:
        """Make a measured job known to the controller; RefusedError when a new one does not fit the budget."""
        left = None if attached.hello.iterations is None else attached.hello.iterations - message.measured
        measured = replace(
            _measured(message.trace, trace, message.lease_overhead, left),
            measured=message.measured,
            measuring_ns=round(message.measuring_seconds * 1e9),
        )
        if attached.arrived:
            self._measured_again(attached, measured)
        else:
            attached.measured_iterations = attached.measured_iterations or message.measured
            self._arrive(attached, measured, budget_bytes)

    def budget_changed(self, budget_bytes: int) -> None:
        """Admit the jobs to the controller that were too large for the budget and are not now."""
        for attached in self._engine.jobs.values():
            attached.largest_budget_bytes = max(attached.largest_budget_bytes, budget_bytes)
        for attached, measured in list(self._too_large.items()):
            self._arrive(attached, measured, budget_bytes)

    def _arrive(self, attached: AttachedJob, measured: _Measured, budget_bytes: int) -> None:
        hello, iterations = attached.hello, measured.iterations
        job = Job(
            name=attached.name,
            trace=measured.trace,
            kind=hello.kind,
            iterations=iterations if iterations is not None and iterations > 0 else None,
            priority=hello.priority,
            deadline_seconds=hello.deadline_seconds,
            deadline_quantile=hello.deadline_quantile,
            latency_critical=hello.latency_critical,
        )
        account = self._controller.ledger.add(job, measured.overhead)
        if account.profile.peak_bytes > budget_bytes and not self._engine.oversubscribes:
            self._controller.ledger.forget(job.name)
            self._set_aside(attached, measured, account.profile.peak_bytes, budget_bytes)
            return
        self._too_large.pop(attached, None)
        attached.waits_for = ""
        attached.becomes(job, account.profile)
        attached.arrived_ns = self._engine.now_ns
        self._write_down(attached, job, measured)
        self._engine.permits.jobs_changed()
        self._engine.post(ev.JobArrived(attached.arrived_ns, job.name))
        self._controller.run()
        self._tell_budget()  # it is no newcomer any more
        self._controller.run()
        if account.state is JobState.QUEUED:  # its bytes are on the device from being measured
            self._engine.host_moves.evict(attached, EvictionReason.QUEUE)
        self._newcomers.over(attached)

    def _measured_again(self, attached: AttachedJob, measured: _Measured) -> None:
        """Take over a new measurement of a job that the controller knows."""
        self._controller.run()  # what has happened so far concerns the iterations as they were
        if not self._controller.ledger.is_present(attached.name):
            return
        job = replace(self._controller.ledger.account(attached.name).job, trace=measured.trace)
        attached.becomes(job, self._controller.ledger.renew(job, measured.overhead).whole)
        assert attached.profile is not None
        self._write_down(attached, job, measured)
        self._engine.post(ev.JobMeasured(self._engine.now_ns, job.name, attached.profile.solo_ns))
        self._controller.run()

    def _set_aside(self, attached: AttachedJob, measured: _Measured, peak_bytes: int, budget_bytes: int) -> None:
        """Let a job that ran under a larger budget wait in host memory; RefusedError when there was none for it."""
        if not attached.hello.resumed and peak_bytes > attached.largest_budget_bytes:
            problem = f"needs {format_bytes(peak_bytes)} and the budget is {format_bytes(budget_bytes)}"
            raise RefusedError(f"job {attached.name} {problem}; raise it (neaptide budget) or make the job smaller")
        attached.waits_for = waits_for_budget(peak_bytes, budget_bytes)
        self._too_large[attached] = measured
        self._newcomers.over(attached)
        self._engine.host_moves.evict(attached, EvictionReason.QUEUE)

    def gone(self, attached: AttachedJob, end: ev.JobEnded | ev.JobFailed | ev.JobLeft) -> None:
        """Undo everything that was done for a job; each step is done whatever the others raise."""
        with ExitStack() as steps:  # does the last one first
            steps.callback(self._newcomers.over, attached)
            steps.callback(self.joined.pop, attached.name, None)
            steps.callback(self._too_large.pop, attached, None)
            steps.callback(self._controller.ledger.forget, attached.name)
            steps.callback(self._controller.run)
            steps.callback(self._engine.remove, attached)
            if self._controller.ledger.knows(attached.name):
                self._engine.post(end)

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._engine.jobs:
            number += 1
            name = numbered_name(wanted, number)
        return name

    def _write_down(self, attached: AttachedJob, job: Job, measured: _Measured) -> None:
        assert attached.profile is not None
        number = ""
        if attached.name in self.joined:  # it was measured before
            self._again += 1
            number = f"%{self._again}"
        path = self._paths.traces / f"{_file_name(job.name)}{number}.trace"
        with suppress(OSError):  # only reports and replay need it, and the disk may be full
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(measured.encoded)
        facts = facts_of_job(job, attached.profile)
        joined = Joined(
            at_ns=self._engine.now_ns,
            facts=facts,
            pid=attached.hello.pid,
            priority=job.priority,
            trace=path.name,
            lease_overhead=astuple(measured.overhead),
            measuring_ns=measured.measuring_ns,
            measured_iterations=measured.measured,
        )
        self.joined[job.name] = joined
        self._note(joined)


def _measured(
    encoded: bytes, read: Decoded | None, overhead: say.LeaseOverheadBytes, iterations: int | None
) -> _Measured:
    """What a message says of an iteration; RefusedError when that cannot be. `read` is the trace if it was read."""
    trace = read or try_decode(encoded)
    if isinstance(trace, TraceFormatError):
        raise trace
    if trace.seconds > _LONGEST_SECONDS:
        raise RefusedError(f"one of its iterations is said to take {format_seconds(trace.seconds)}")
    if trace.batch > MOST_SAMPLES_OF_A_CALL:
        trace = replace(trace, batch=MOST_SAMPLES_OF_A_CALL)
    return _Measured(trace, encoded, LeaseOverhead(*overhead), iterations)


def _was_measured(hello: say.Hello) -> bool:
    return hello.resumed and hello.trace is not None


def _file_name(job: str) -> str:
    """A name for files that no other job has."""
    return "".join(letter if letter.isalnum() or letter in "-_." else f"%{ord(letter):x};" for letter in job)
