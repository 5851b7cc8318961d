"""The daemon without its socket: messages become events, the controller answers, the engine writes to the board."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller
from neaptide.core.control.log_format import Header, HeldMemory, Line
from neaptide.core.control.policy import Need, Policy
from neaptide.core.rules.patience import TICK_SECONDS
from neaptide.core.traces.trace_format import TraceFormatError
from neaptide.core.units import format_bytes
from neaptide.devices import default_kind
from neaptide.devices.board import PERMIT_ALL, Board, BoardError, Request
from neaptide.devices.board.board import process_state as board_process_state
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.clock import Clock, Timers
from neaptide.live.daemon.engine import LiveEngine, ProcessStateOf
from neaptide.live.daemon.log_writer import EventLog
from neaptide.live.daemon.measuring import Measuring
from neaptide.live.daemon.registration import RefusedError, Registration
from neaptide.live.daemon.requests import Requests
from neaptide.live.daemon.status import StatusBuilder
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
_REAP_SECONDS = (0.005, 0.02, 0.1, 0.5)  # a process that was killed holds its memory for a moment


class Caller(Protocol):
    """A connected job or command."""

    job: AttachedJob | None

    def say(self, message: say.FromDaemon) -> None:
        """Send a message, if the connection is still there."""

    def hang_up(self) -> None:
        """End the connection when the messages are sent."""


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
    ) -> None:
        self._kind = kind or default_kind()
        self._board = board
        self._policy = policy
        self._clock = clock
        self._timers = Timers(clock)
        self._budget_bytes = budget_bytes
        self._granted_bytes = budget_bytes  # as the policy knows it: without the bytes of unresponsive jobs
        self._log = EventLog(paths.events, self._opening, complain)
        self._engine = LiveEngine(board, self._kind, clock, process_state, self._wake_at)
        self._controller = Controller((), budget_bytes, policy, self._engine, self._log.note)
        ledger = self._controller.ledger
        self._measuring = Measuring(self._engine)
        self._watching = Watching(self._engine)
        self._deadlock = Deadlock(self._engine, ledger)
        self._unresponsive = Unresponsive(self._engine, ledger, self._tell_budget)
        self._registration = Registration(self._engine, self._controller, self._measuring, paths, self._log.note)
        self._memory_history = MemoryHistory(self._engine, self._timers, self._log_memory)
        self._requests = Requests(self._engine, ledger)
        self._status = StatusBuilder(board, self._engine, ledger)
        board.set_capacity(budget_bytes)

    # --- messages

    def heard(self, caller: Caller, message: say.ToDaemon) -> None:
        """Handle one message; ProtocolError when it is out of place."""
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
            case say.RequestArrived() if job is not None:
                self._requests.arrived(job)
            case say.Grew() if job is not None:
                self._grew(job, message.peak_bytes)
            case say.Hello() if job is None:
                self._register(caller, lambda: self._hello(caller, message))
            case say.Profiled() if job is not None:
                self._register(caller, lambda: self._registration.profiled(job, message, self._budget_bytes))
            case say.Failed() if job is not None:
                self._gone(caller, message.reason or "it failed")
            case say.Goodbye() if job is not None:
                self._gone(caller, None)
            case say.StatusRequest():
                self._log.flush()  # so that a command finds in the log what the status says
                caller.say(self.status())
            case say.SetBudget():
                self._set_budget(caller, message.bytes)
            case _:
                raise say.ProtocolError(f"{type(message).__name__} is out of place")
        self._settle()

    def lost(self, caller: Caller) -> None:
        """The connection has ended."""
        if caller.job is not None:
            self._engine.report_iterations()
            self._gone(caller, "its process ended without a word")
            self._settle()

    def _ran_ahead(self, job: AttachedJob, message: say.IterationEnded | say.PhaseEnded) -> None:
        """Count an iteration for which nothing is to be decided; it costs a job that is alone next to nothing."""
        if isinstance(message, say.IterationEnded):
            self._engine.iteration_ended(job, message)
            self._timers.start("ahead", _AHEAD_SECONDS, self._settle)

    def _hello(self, caller: Caller, hello: say.Hello) -> None:
        caller.job = self._registration.attach(hello, caller.say, caller.hang_up)
        self._registration.begin(caller.job, self._budget_bytes)

    def _register(self, caller: Caller, step: Callable[[], None]) -> None:
        """Do a step of registering a job; a job that is refused is told, and removed."""
        try:
            step()
        except (RefusedError, TraceFormatError) as error:
            caller.say(say.JobRefused(str(error)))
            self._gone(caller, str(error))
            caller.hang_up()

    def _gone(self, caller: Caller, failure: str | None) -> None:
        job, caller.job = caller.job, None
        if job is None:
            return
        self._status.remember(job, failure)
        self._registration.gone(job, failure)
        self._deadlock.gone(job)
        self._reap(0)
        if job.unresponsive:
            self._tell_budget()

    def _iteration_ended(self, job: AttachedJob, message: say.IterationEnded) -> None:
        if not job.arrived:
            return
        self._engine.iteration_ended(job, message)
        self._engine.report_iterations()
        self._controller.run()  # first of all: a job may wait for a permit
        self._deadlock.iteration_ended(job)
        if job.unresponsive:
            self._unresponsive.returned(job)

    def _phase_ended(self, job: AttachedJob, message: say.PhaseEnded) -> None:
        if job.arrived and job.running:
            job.passed_forward(self._board.progress(job.slot).done)
            if Need.PHASES in self._policy.needs:
                self._engine.post(ev.PhaseEnded(self._engine.now_ns, job.name, message.phase))

    def _grew(self, job: AttachedJob, peak_bytes: int) -> None:
        if job.arrived:
            self._engine.post(ev.JobGrew(self._engine.now_ns, job.name, peak_bytes))
            self._controller.run()
            job.profile = self._controller.ledger.account(job.name).profile

    def status(self) -> say.Status:
        """The device, the policy and the jobs now."""
        return self._status.status(self._policy.name, self._budget_bytes, self._log.problem)

    # --- the budget

    def _set_budget(self, caller: Caller, budget_bytes: int) -> None:
        if budget_bytes < self._kind.chunk_bytes:
            least = format_bytes(self._kind.chunk_bytes)
            caller.say(
                say.Problem(f"a budget of {format_bytes(budget_bytes)} is too small; at least {least} is needed")
            )
            return
        self._budget_bytes = budget_bytes
        self._board.set_capacity(budget_bytes)
        self._tell_budget()
        caller.say(say.Done())

    def _tell_budget(self) -> None:
        """Tell the policy what the budget leaves beside the bytes of unresponsive jobs."""
        granted_bytes = max(self._budget_bytes - self._engine.stuck_bytes(), 1)
        if granted_bytes != self._granted_bytes:
            self._granted_bytes = granted_bytes
            self._engine.post(ev.BudgetChanged(self._engine.now_ns, granted_bytes))

    # --- timers

    def _settle(self) -> None:
        """Have the policy answer every event, and start the timers that are needed from now on."""
        self._engine.report_iterations()
        self._controller.run()
        self._engine.permits.close_unstarted()
        if self._measuring.active:
            self._measuring.advance()
        if self._needs_ticks():
            self._timers.start("tick", TICK_SECONDS, self._tick)
        if self._engine.host_moves.in_progress:
            self._timers.start("moves", _MOVES_SECONDS, self._look_at_moves)
        self._memory_history.keep_looking()
        if self._log.pending >= _FEW_LINES:  # now, after the permits were given: later the log would delay permits more
            self._log.flush()
        elif self._log.pending:
            self._flush_soon()

    def _needs_ticks(self) -> bool:
        jobs = self._engine.jobs.values()
        return len(jobs) > 1 or self._deadlock.has_evicted or any(not job.arrived or job.unresponsive for job in jobs)

    def _tick(self) -> None:
        self._measuring.look()
        sights = self._watching.look()
        self._unresponsive.look(sights)
        self._deadlock.look(sights)
        self._settle()

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
        self._timers.start("flush", _FLUSH_SECONDS, self._log.flush)

    def _opening(self) -> Iterable[Line]:
        yield Header(
            scenario="live",
            policy=self._policy.name,
            seed=0,
            device=self._kind.name,
            budget_bytes=self._granted_bytes,
            end_ns=0,
            jobs=(),
        )
        yield from self._registration.joined.values()

    # --- the end

    def close(self) -> None:
        """Let the jobs go on without a daemon, under the board's limits alone."""
        self._timers.cancel_all()
        for job in self._engine.jobs.values():
            with suppress(BoardError):
                if job.eviction is not None:
                    self._board.set_request(job.slot, Request.RESTORE)
                self._board.set_heavy_open(job.slot, True)
                self._board.set_inflight_cap(job.slot, None)
                self._board.set_ceiling(job.slot, None)
                self._board.set_permit(job.slot, PERMIT_ALL)
        self._log.flush()
