"""The daemon without its socket: what jobs say becomes events, the controller answers, the board carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Controller
from neaptide.core.control.log_format import Header, HeldMemory, Line
from neaptide.core.control.policy import Need, Policy
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
from neaptide.live.daemon.memory_history import MemoryHistory
from neaptide.live.daemon.registration import RefusedError, Registration
from neaptide.live.daemon.requests import Requests
from neaptide.live.daemon.status import StatusBuilder
from neaptide.live.daemon.watchdog import TICK_SECONDS, Watchdog
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths

_SETTLE_SECONDS = 0.005
_FLUSH_SECONDS = 0.05
_FEW_LINES = 16  # are written in a tenth of a millisecond
_ALONE_SECONDS = 0.1  # between the reports to the controller of a job that is alone
_REAP_SECONDS = (0.005, 0.02, 0.1, 0.5)  # a process that was killed holds its memory for a moment


class Caller(Protocol):
    """Who speaks with the daemon, as it sees them."""

    resident: AttachedJob | None

    def say(self, message: say.FromDaemon) -> None:
        """Send a message; nothing when the other is gone."""

    def hang_up(self) -> None:
        """End the connection when what was said is sent."""


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
        self._granted_bytes = budget_bytes  # what the policy was told of it
        self._log = EventLog(paths.events, self._opening, complain)
        self._engine = LiveEngine(board, self._kind, clock, process_state, self._wake_at)
        self._controller = Controller((), budget_bytes, policy, self._engine, self._log.note)
        ledger = self._controller.ledger
        self._measuring = Measuring(self._engine)
        self._watchdog = Watchdog(self._engine, ledger, self._tell_budget)
        self._registration = Registration(self._engine, self._controller, self._measuring, paths, self._log.note)
        self._memory_history = MemoryHistory(self._engine, self._timers, self._log_memory)
        self._requests = Requests(self._engine, ledger)
        self._standing = StatusBuilder(board, self._engine, ledger)
        board.set_capacity(budget_bytes)

    # --- what is said

    def heard(self, caller: Caller, message: say.ToDaemon) -> None:
        """Answer one message; ProtocolError when it is out of place."""
        resident = caller.resident
        if resident is not None and resident.permit == PERMIT_ALL and self._heard_alone(resident, message):
            return
        self._tell_of_the_one_alone()
        match message:
            case say.IterationEnded() if resident is not None:
                self._iteration_ended(resident, message)
            case say.PhaseEnded() if resident is not None:
                self._phase_ended(resident, message)
            case say.RequestArrived() if resident is not None:
                self._requests.arrived(resident)
            case say.Grew() if resident is not None:
                self._grew(resident, message.peak_bytes)
            case say.Hello() if resident is None:
                self._hello(caller, message)
            case say.Ready() if resident is not None:
                self._measuring.ready(resident)
            case say.Profiled() if resident is not None:
                self._take(caller, lambda: self._registration.profiled(resident, message, self._budget_bytes))
            case say.Failed() if resident is not None:
                self._gone(caller, message.reason or "it failed")
            case say.Goodbye() if resident is not None:
                self._gone(caller, None)
            case say.StatusRequest():
                self._log.flush()  # so that a command finds in the log what the status says
                caller.say(self.status())
            case say.SetBudget():
                self._set_budget(caller, message.bytes)
            case _:
                raise say.ProtocolError(f"{type(message).__name__} is out of place")
        self._settle()

    def _heard_alone(self, resident: AttachedJob, message: say.ToDaemon) -> bool:
        """A job that is alone costs the device's cores next to nothing: its iterations are only counted."""
        match message:
            case say.PhaseEnded():
                return True
            case say.IterationEnded():
                self._engine.iteration_ended_alone(resident, message)
                self._timers.start("alone", _ALONE_SECONDS, self._settle)
                return True
        return False

    def _tell_of_the_one_alone(self) -> None:
        for resident in self._engine.residents.values():
            if resident.untold:
                self._engine.flush_iterations(resident)

    def lost(self, caller: Caller) -> None:
        """The other side is gone."""
        if caller.resident is not None:
            self._tell_of_the_one_alone()
            self._gone(caller, "its process ended without a word")
            self._settle()

    def _hello(self, caller: Caller, hello: say.Hello) -> None:
        def take() -> None:
            caller.resident = self._registration.hello(hello, caller.say, caller.hang_up, self._budget_bytes)

        self._take(caller, take)

    def _take(self, caller: Caller, step: Callable[[], None]) -> None:
        """Do a step of taking a job in; if it cannot be taken, it alone is told."""
        try:
            step()
        except (RefusedError, TraceFormatError) as error:
            caller.say(say.JobRefused(str(error)))
            self._gone(caller, str(error))
            caller.hang_up()

    def _gone(self, caller: Caller, failure: str | None) -> None:
        resident, caller.resident = caller.resident, None
        if resident is None:
            return
        self._standing.remember(resident, failure)
        self._registration.gone(resident, failure)
        self._watchdog.gone(resident)
        self._reap(0)
        if resident.unresponsive:
            self._tell_budget()

    def _iteration_ended(self, resident: AttachedJob, message: say.IterationEnded) -> None:
        if not resident.arrived:
            return
        self._engine.iteration_ended(resident, message)
        self._controller.run()  # first of all: somebody may wait for a permit
        self._watchdog.iteration_ended(resident)
        if resident.unresponsive:
            self._watchdog.returned(resident)

    def _phase_ended(self, resident: AttachedJob, message: say.PhaseEnded) -> None:
        if resident.arrived and resident.running:
            resident.passed_forward(self._board.progress(resident.slot).done)
            if Need.PHASES in self._policy.needs:
                self._engine.post(ev.PhaseEnded(self._engine.now_ns, resident.name, message.phase))

    def _grew(self, resident: AttachedJob, peak_bytes: int) -> None:
        if resident.arrived:
            self._engine.post(ev.JobGrew(self._engine.now_ns, resident.name, peak_bytes))
            self._controller.run()
            resident.profile = self._controller.ledger.account(resident.name).profile

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
        """The policy is told what is left beside the bytes of jobs that do not come along."""
        granted_bytes = max(self._budget_bytes - self._engine.stuck_bytes(), 1)
        if granted_bytes != self._granted_bytes:
            self._granted_bytes = granted_bytes
            self._engine.post(ev.BudgetChanged(self._engine.now_ns, granted_bytes))

    # --- what happens by itself

    def _settle(self) -> None:
        """Have everything answered that has happened, and see what must be looked at from now on."""
        self._tell_of_the_one_alone()
        self._controller.run()
        self._engine.settle_permits()
        if self._measuring.active:
            self._measuring.advance()
        residents = self._engine.residents
        if len(residents) > 1 or any(not resident.arrived or resident.unresponsive for resident in residents.values()):
            self._timers.start("tick", TICK_SECONDS, self._tick)
        if self._engine.residence.settling:
            self._timers.start("settle", _SETTLE_SECONDS, self._look_at_residence)
        self._memory_history.keep_looking()
        if self._log.pending >= _FEW_LINES:  # now, when permits are given: later it would hold somebody up for longer
            self._log.flush()
        elif self._log.pending:
            self._flush_soon()

    def _tick(self) -> None:
        self._measuring.look()
        self._watchdog.look()
        self._settle()

    def _look_at_residence(self) -> None:
        self._engine.residence.look()
        self._controller.run()
        self._requests.presume()
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

    def status(self) -> say.Status:
        """How things stand."""
        return self._standing.status(self._policy.name, self._budget_bytes, self._log.problem)

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
        for resident in self._engine.residents.values():
            with suppress(BoardError):
                if resident.away is not None:
                    self._board.set_request(resident.slot, Request.RESTORE)
                self._board.set_heavy_open(resident.slot, True)
                self._board.set_inflight_cap(resident.slot, None)
                self._board.set_ceiling(resident.slot, None)
                self._board.set_permit(resident.slot, PERMIT_ALL)
        self._log.flush()
