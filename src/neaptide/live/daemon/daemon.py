"""The daemon without its socket: messages become events, the controller answers, the engine writes to the board."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial

from msgspec.structs import replace

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller
from neaptide.core.control.log_format import Header, HeldMemory, Line
from neaptide.core.control.policy import Need, Policy
from neaptide.core.rules.patience import TICK_SECONDS
from neaptide.core.traces.trace_format import Decoded, TraceFormatError
from neaptide.devices import default_kind
from neaptide.devices.board import Board, BoardError
from neaptide.devices.board.board import process_state as board_process_state
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.attached_job import AttachedJob, Caller
from neaptide.live.daemon.budget import Budget
from neaptide.live.daemon.clock import Clock, Timers
from neaptide.live.daemon.engine import LiveEngine, ProcessStateOf
from neaptide.live.daemon.io.log_writer import EventLog
from neaptide.live.daemon.newcomers import Newcomers
from neaptide.live.daemon.registration import RefusedError, Registration
from neaptide.live.daemon.requests import Requests
from neaptide.live.daemon.status import StatusBuilder
from neaptide.live.daemon.times_alone import TimesAlone
from neaptide.live.daemon.watch.core_waits import CoreWaits
from neaptide.live.daemon.watch.core_waits import core_waits as threads_core_waits
from neaptide.live.daemon.watch.deadlock import Deadlock
from neaptide.live.daemon.watch.memory_history import MemoryHistory
from neaptide.live.daemon.watch.sights import Watching
from neaptide.live.daemon.watch.unresponsive import Unresponsive
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths

_MOVES_SECONDS = 0.005  # between looks at jobs that move their bytes
_FLUSH_SECONDS = 0.05
_FEW_LINES = 16  # are written in a tenth of a millisecond
_AHEAD_SECONDS = 0.1  # between the controller's reports of a job that runs ahead
_DEPARTED_SECONDS = 0.5  # between looks for processes that ended while their connection stays open
_LAST_WORDS_SECONDS = 0.1  # for reading what such a process said before
_REAP_SECONDS = (0.005, 0.02, 0.1, 0.5)  # a process that was killed holds its memory for a moment


class Daemon:
    """One policy over the jobs of one board. Not thread-safe: every call comes on the thread of its clock.

    It needs no socket and no event loop: `heard` and `lost` are called with what comes from jobs and commands.
    """

    def __init__(
        self,
        board: Board,
        paths: RuntimePaths,
        policy: Policy,
        budget_bytes: int,
        clock: Clock,
        complain: Callable[[str], None],
        process_state: ProcessStateOf = board_process_state,
        kind: DeviceKind | None = None,
        core_waits: CoreWaits = threads_core_waits,
    ) -> None:
        self._kind = kind or default_kind()
        self._board = board
        self._policy = policy
        self._clock = clock
        self._timers = Timers(clock)
        self._log = EventLog(paths.events, self._opening, complain)
        self._engine = LiveEngine(
            board, self._kind, clock, process_state, self._wake_at, oversubscribes=policy.oversubscribes
        )
        self._controller = Controller((), budget_bytes, policy, self._engine, self._log.note)
        ledger = self._controller.ledger
        self._budget = Budget(self._engine, ledger, self._kind, budget_bytes, self._budget_changed)
        self._newcomers = Newcomers(self._engine)
        self._times_alone = TimesAlone(self._engine)
        self._watching = Watching(self._engine, core_waits)
        self._deadlock = Deadlock(self._engine, ledger)
        self._unresponsive = Unresponsive(self._engine, ledger, self._budget.tell)
        self._registration = Registration(
            self._engine, self._controller, self._newcomers, self._budget.tell, paths, self._log.note
        )
        self._memory_history = MemoryHistory(self._engine, self._timers, self._log_memory)
        self._requests = Requests(self._engine, ledger)
        self._status = StatusBuilder(board, self._engine, ledger)

    # --- messages

    def heard(self, caller: Caller, message: say.ToDaemon, trace: Decoded | None = None) -> None:
        """Handle one message; ProtocolError when it is out of place. `trace` is its trace, if that was read already."""
        job = caller.job
        if job is not None and job.runs_ahead and isinstance(message, say.IterationEnded | say.PhaseEnded):
            self._ran_ahead(job, message)
            return
        self._engine.report_iterations()
        match message:
            case say.IterationEnded() if job is not None:
                self._iteration_ended(job, message)
            case say.PhaseEnded() if job is not None:
                self._phase_ended(job, message)
            case say.RequestArrived() if job is not None and not job.trains:
                self._requests.arrived(job)
            case say.RequestExpected() if job is not None and not job.trains:
                self._requests.expected(job, message)
            case say.RequestCalled() if job is not None and not job.trains:
                self._requests.called(job, message)
            case say.RequestAnswered() if job is not None and not job.trains:
                self._requests.answered(job, message)
            case say.CallWithdrawn() if job is not None and not job.trains:
                self._requests.withdrawn(job)
            case say.Grew() if job is not None:
                self._grew(job, message.peak_bytes)
            case say.Hello() if job is None:
                self._register(caller, lambda: self._hello(caller, message, trace))
            case say.NotShared() if job is None:
                self._status.note_not_shared(caller, message)
            case say.Profiled() if job is not None:
                self._register(caller, lambda: self._registration.profiled(job, message, trace, self._budget.bytes))
            case say.Failed() if job is not None:
                self._gone(job, self._failed(job, message.reason or "it failed"))
            case say.Goodbye() if job is not None:
                self._gone(job, ev.JobEnded(self._engine.now_ns, job.name))
            case say.StatusRequest() if job is None:
                self._log.flush()  # so that a command finds in the log what the status says
                caller.say(self.status())
            case say.SetBudget() if job is None:
                self._set_budget(caller, message.bytes)
            case _:
                raise say.ProtocolError(f"{type(message).__name__} is out of place")
        self._settle()

    def lost(self, caller: Caller) -> None:
        """The connection has ended."""
        self._status.forget(caller)
        job, caller.job = caller.job, None
        if job is not None:
            self._silent(job, 0)

    def _silent(self, job: AttachedJob, looks: int) -> None:
        """A job's connection ended without a word. It failed if its process ends too; a killed one takes a moment."""
        if self._engine.jobs.get(job.name) is not job:  # it has joined again, or is gone
            return
        if not self._engine.is_there(job):
            self._end(job, self._failed(job, "its process ended without a word"))
        elif looks == len(_REAP_SECONDS):
            self._end(job, ev.JobLeft(self._engine.now_ns, job.name))
        else:
            self._clock.call_later(_REAP_SECONDS[looks], lambda: self._silent(job, looks + 1))

    def _failed(self, job: AttachedJob, reason: str) -> ev.JobFailed:
        return ev.JobFailed(self._engine.now_ns, job.name, reason)

    def _ran_ahead(self, job: AttachedJob, message: say.IterationEnded | say.PhaseEnded) -> None:
        """Count an iteration for which nothing is to be decided; it costs a job that is alone next to nothing."""
        if isinstance(message, say.IterationEnded):
            count = self._engine.iteration_ended(job, message)
            self._times_alone.iteration_ended(job, message, count)
            self._timers.start("ahead", _AHEAD_SECONDS, self._settle)

    def _hello(self, caller: Caller, hello: say.Hello, trace: Decoded | None) -> None:
        start_time = self._registration.check(hello, caller)
        # The process has the slot, so an older connection for it is one that this process has given up, or belongs to
        # a process that is gone.
        for older in [job for job in self._engine.jobs.values() if job.slot == hello.slot]:
            self._gone(older, ev.JobLeft(self._engine.now_ns, older.name))
            older.caller.hang_up()
        caller.job = self._registration.newcomer(hello, start_time, caller)  # from here on `lost` removes it
        self._registration.attach(caller.job, trace, self._budget.bytes, self._policy.name)

    def _register(self, caller: Caller, step: Callable[[], None]) -> None:
        """Do a step of registering a job; a job that is refused is told, and removed."""
        try:
            step()
        except (RefusedError, TraceFormatError) as error:
            caller.say(say.JobRefused(str(error)))
            if (job := caller.job) is not None:  # one that ran before goes on without the daemon
                left = ev.JobLeft(self._engine.now_ns, job.name)
                self._gone(job, left if job.hello.resumed else self._failed(job, str(error)))
            caller.hang_up()

    def _end(self, job: AttachedJob, end: ev.JobEnded | ev.JobFailed | ev.JobLeft) -> None:
        """Remove a job that has said nothing."""
        self._engine.report_iterations()
        self._gone(job, end)
        self._settle()

    def _gone(self, job: AttachedJob, end: ev.JobEnded | ev.JobFailed | ev.JobLeft) -> None:
        """Remove a job; each step is done whatever the others raise."""
        if job.caller.job is job:
            job.caller.job = None
        with suppress(BoardError):
            job.note_waiting(self._board.progress(job.slot))
        if not isinstance(end, ev.JobLeft):
            end = replace(end, waited_ns=job.waited_ns, stalled_ns=job.stalled_ns)
        with ExitStack() as steps:  # does the last one first
            steps.callback(self._budget.tell)
            steps.callback(self._reap, 0)
            steps.callback(self._deadlock.gone, job)
            steps.callback(self._registration.gone, job, end)
            steps.callback(self._status.remember, job, end)

    def _iteration_ended(self, job: AttachedJob, message: say.IterationEnded) -> None:
        count = self._engine.iteration_ended(job, message)
        if not job.arrived:
            return
        self._engine.report_iterations()
        self._controller.run()  # first of all: a job may wait for a permit
        self._times_alone.iteration_ended(job, message, count)
        self._deadlock.iteration_ended(job)
        if job.unresponsive:
            self._unresponsive.returned(job)

    def _phase_ended(self, job: AttachedJob, message: say.PhaseEnded) -> None:
        if job.arrived and job.running:
            job.passed_forward(self._board.progress(job.slot).done, self._engine.now_ns)
            if Need.PHASES in self._policy.needs:
                self._engine.post(ev.PhaseEnded(self._engine.now_ns, job.name, message.phase))

    def _grew(self, job: AttachedJob, peak_bytes: int) -> None:
        if job.arrived:
            # A job of which more than the budget is expected would wait for ever; if it asks for more, that fails.
            expected_bytes = min(peak_bytes, self._budget.bytes)
            self._engine.post(ev.JobGrew(self._engine.now_ns, job.name, expected_bytes))
            self._controller.run()
            job.is_known_as(self._controller.ledger.account(job.name).whole)

    @property
    def has_jobs(self) -> bool:
        return bool(self._engine.jobs)

    def status(self) -> say.Status:
        """The device, the policy and the jobs now."""
        return self._status.status(self._policy.name, self._budget.bytes, self._log.problem)

    # --- the heartbeat

    def beat(self, now_ns: int) -> None:
        """Tell the jobs that the daemon lives, and write again what the board should say. On the monotonic clock."""
        self._budget.look(now_ns)
        self._board.beat(now_ns, self._budget.bytes)
        self._board.reap()
        self._engine.reassert()

    def rest(self) -> None:
        """There are no jobs: nobody waits for the daemon."""
        self._board.stop_beating()

    # --- the budget

    def _set_budget(self, caller: Caller, budget_bytes: int) -> None:
        try:
            self._budget.want(budget_bytes)
        except ValueError as error:
            caller.say(say.Problem(str(error)))
        else:
            caller.say(say.Done())

    def _budget_changed(self, budget_bytes: int) -> None:
        self._controller.run()
        self._registration.budget_changed(budget_bytes)

    # --- timers

    def _settle(self) -> None:
        """Have the policy answer every event, and start the timers that are needed from now on."""
        self._engine.report_iterations()
        self._controller.run()
        self._engine.permits.close_unstarted()
        if self._needs_ticks():
            self._timers.start("tick", TICK_SECONDS, self._tick)
        if self._engine.host_moves.in_progress:
            self._timers.start("moves", _MOVES_SECONDS, self._look_at_moves)
        if self._engine.jobs:
            self._timers.start("departed", _DEPARTED_SECONDS, self._look_for_departed)
        self._memory_history.keep_looking()
        # Now, after the permits were given: later the log would delay permits more. While no job waits for a permit,
        # the daemon writes even one line at once: to wake up for it would take longer.
        if self._log.pending >= _FEW_LINES or self._engine.all_run_ahead:
            self._log.flush()
        elif self._log.pending:
            self._flush_soon()

    def _needs_ticks(self) -> bool:
        jobs = self._engine.jobs.values()
        if len(jobs) > 1 or self._deadlock.has_evicted or any(not job.arrived or job.unresponsive for job in jobs):
            return True
        if any(job.ceiling_bytes is not None for job in jobs):  # also a job that is alone may wait for itself
            return True
        return self._deadlock.over_budget

    def _tick(self) -> None:
        sights = self._watching.look()
        self._unresponsive.look(sights)
        self._deadlock.look(sights)
        self._newcomers.look(sights)
        self._requests.assume()
        self._budget.tell()
        self._settle()

    def _look_for_departed(self) -> None:
        """Remove jobs whose process or slot is gone; a forked child may hold their connection open for ever."""
        for job in self._engine.jobs.values():
            if not self._engine.is_there(job):  # its goodbye may still be in the socket
                self._clock.call_later(_LAST_WORDS_SECONDS, partial(self._departed, job))
        self._settle()

    def _departed(self, job: AttachedJob) -> None:
        if self._engine.jobs.get(job.name) is job and not self._engine.is_there(job):
            self._end(job, self._failed(job, "its process ended without a word"))
            job.caller.hang_up()

    def _look_at_moves(self) -> None:
        self._engine.host_moves.look()
        self._controller.run()
        self._requests.assume()
        self._settle()

    def _reap(self, attempt: int) -> None:
        with suppress(BoardError):
            self._board.reap()
        if attempt < len(_REAP_SECONDS):
            self._clock.call_later(_REAP_SECONDS[attempt], lambda: self._reap(attempt + 1))

    def _wake_at(self, at_ns: int) -> None:
        self._timers.restart("wake", max(at_ns - self._engine.now_ns, 0) / 1e9, self._woken)

    def _woken(self) -> None:
        self._engine.post(ev.Woken(self._engine.now_ns))
        self._settle()

    # --- the log

    def _log_memory(self, held: HeldMemory) -> None:
        self._log.note(held)
        self._flush_soon()

    def _flush_soon(self) -> None:
        seconds = 2 * _AHEAD_SECONDS if self._engine.all_run_ahead else _FLUSH_SECONDS
        self._timers.start("flush", seconds, self._log.flush)

    def _opening(self) -> Iterable[Line]:
        yield Header(
            scenario="live",
            policy=self._policy.name,
            seed=0,
            device=self._kind.name,
            budget_bytes=self._controller.ledger.budget_bytes,  # which a posted event may be about to change
            user_bytes=self._budget.bytes,
            overflow=Need.OVERFLOW in self._kind.supplies,
            holds_launched=Need.HOLDING in self._kind.supplies,
            end_ns=0,
            jobs=(),
        )
        yield from self._registration.joined.values()

    # --- the end

    def close(self) -> None:
        """Let the jobs go on without a daemon, under the board's limits alone."""
        self._timers.cancel_all()
        self._engine.close_lanes()
        for job in self._engine.jobs.values():
            self._board.lift_controls(job.slot, restore=job.eviction is not None)
        self._board.stop_beating()
        self._log.flush()
