"""The engine on real processes (core.engine): permits, gates, caps and requests on the board.

Iterations are counted as on the board. A job's permit is the number that the policy has started; a job that is alone
has an open one and pays for nothing. While a newcomer is measured, starts are held back: counted, but not permitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.engine import Observation
from neaptide.core.control.policy import Need
from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT
from neaptide.devices.board import PERMIT_ALL, Board, BoardError, Progress
from neaptide.devices.board.figures import ProcessState
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.clock import Clock
from neaptide.live.daemon.host_moves import HostMoves
from neaptide.live.protocol.messages import IterationEnded

# Memory is leased in chunks, and between the blocks in them are gaps: a ceiling is so much above what a job needs.
_SPARE_CHUNKS = 4
_SPARE_SHARE = 8  # or an eighth

ProcessStateOf = Callable[[int, int], ProcessState]  # of the process with this pid and start time


class LiveEngine:
    """Carries out what a policy decides on the processes of one board."""

    def __init__(
        self,
        board: Board,
        kind: DeviceKind,
        clock: Clock,
        process_state: ProcessStateOf,
        wake_at: Callable[[int], None],
    ) -> None:
        self.board = board
        self._kind = kind
        self.residents: dict[str, AttachedJob] = {}  # in the order of Hello
        self.residence = HostMoves(board, self.post, clock.now_ns)
        self._wake_at = wake_at
        self._events: deque[ev.Event] = deque()
        self._clock = clock
        self._process_state = process_state
        self._holding = False

    # --- core.engine.Engine

    @property
    def supplies(self) -> frozenset[Need]:
        return self._kind.supplies

    @property
    def now_ns(self) -> int:
        return self._clock.now_ns()

    def next_event(self) -> ev.Event | None:
        """What has happened and was not handled; never waits."""
        return self._events.popleft() if self._events else None

    def carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self._wake_at(action.at_ns)
            return
        resident = self.residents.get(action.job)  # type: ignore[attr-defined]
        if resident is None:  # it is gone, and the event that says so is on its way
            return
        with suppress(BoardError):  # its process has just died
            self._carry_out_on(resident, action)

    def _carry_out_on(self, resident: AttachedJob, action: act.Action) -> None:
        match action:
            case act.Start():
                resident.started += 1
                resident.iteration_begins(self.board.progress(resident.slot).done)
                self.permit(resident)
            case act.Admit():
                if action.ceiling_bytes is not None:
                    chunks = -(-action.ceiling_bytes // self._kind.chunk_bytes)
                    chunks += max(_SPARE_CHUNKS, chunks // _SPARE_SHARE)
                    self.board.set_ceiling(resident.slot, chunks * self._kind.chunk_bytes)
                self.residence.come(resident, EvictionReason.QUEUE)
            case act.Suspend():
                self.residence.leave(resident, EvictionReason.POLICY)
            case act.Resume():
                self.residence.come(resident, EvictionReason.POLICY)
            case act.SetGate():
                resident.gate_open = action.open
                self.board.set_heavy_open(resident.slot, action.open)
            case act.CapInFlight():
                resident.cap = action.kernels
                self._cap(resident)
            case act.SetPlan():
                raise AssertionError("a live job has one plan, and the ledger refuses another")
            case act.MoveLane():  # lanes are the policy's own affair
                pass

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        done, held = self.board.read_counters()
        seen = {}
        for name in jobs:
            job = self.residents.get(name)
            if job is None:  # it is gone, and the event that says so comes next
                seen[name] = Observation(0, 0)
            else:
                seen[name] = Observation(job.position_ns(done[job.slot]), held[job.slot])
        return seen

    # --- what happens

    def post(self, event: ev.Event) -> None:
        """Have an event handled next; the controller takes it when it runs."""
        self._events.append(event)

    def add(self, resident: AttachedJob) -> None:
        """A job has said Hello: from now on none is alone, and none of its iterations runs unasked."""
        self.residents[resident.name] = resident
        self.close_permit(resident)
        resident.started = resident.ended = min(resident.hello.ended, resident.permit)
        self.residence.welcome(resident)
        self.crowd_changed()

    def remove(self, resident: AttachedJob) -> None:
        """A job is gone."""
        del self.residents[resident.name]
        self.residence.forget(resident)
        self.crowd_changed()

    def iteration_ended(self, resident: AttachedJob, ended: IterationEnded) -> None:
        """The device has passed the last op of an iteration. One that nobody started is counted, and that is all."""
        asked = resident.running and ended.index < resident.started
        self._count(resident, ended)
        if asked and resident.ended == resident.started:
            resident.iteration_ends(self.board.progress(resident.slot).done)
            self.post(ev.IterationEnded(self.now_ns, resident.name, ended.took_ns, work=ended.size))

    def iteration_ended_alone(self, resident: AttachedJob, ended: IterationEnded) -> None:
        """The same of a job with an open permit, for which nothing is to be decided."""
        self._count(resident, ended)
        resident.untold += 1
        resident.untold_ns += ended.took_ns
        resident.untold_work += ended.size

    def flush_iterations(self, resident: AttachedJob) -> None:
        """Have the controller know of iterations that it was not told of."""
        count, took_ns, work = resident.untold, resident.untold_ns, resident.untold_work
        resident.untold, resident.untold_ns, resident.untold_work = 0, 0, 0.0
        if count and resident.running:
            resident.iteration_ends(self.board.progress(resident.slot).done)
            self.post(ev.IterationEnded(self.now_ns, resident.name, took_ns, (), count, work))

    def _count(self, resident: AttachedJob, ended: IterationEnded) -> None:
        resident.ended = max(resident.ended, ended.index + 1)
        resident.started = max(resident.started, resident.ended)
        resident.ends_ns.append(self.now_ns)
        resident.done_iterations += 1
        resident.busy_ns += ended.took_ns

    # --- permits

    def permit(self, resident: AttachedJob) -> None:
        """Let the iterations run that the policy has started, unless they are held back."""
        if self._holding or resident.unresponsive or not resident.running:
            return
        resident.permitted_ns = self.now_ns
        wanted = PERMIT_ALL if self.alone(resident) and resident.trains else resident.started
        if wanted != resident.permit:
            resident.permit = wanted
            self.board.set_permit(resident.slot, wanted)

    def alone(self, resident: AttachedJob) -> bool:
        return len(self.residents) == 1 and resident.arrived

    def close_permit(self, resident: AttachedJob) -> None:
        """Let what has begun go on, and nothing after it; a permit that was not used is taken back."""
        with suppress(BoardError):
            seen = self.board.progress(resident.slot)
            permit = seen.iteration if seen.permit == PERMIT_ALL else min(seen.iteration, seen.permit)
            while True:
                self.board.set_permit(resident.slot, permit)
                resident.permit = permit
                begun = self.board.progress(resident.slot).iteration
                if begun <= permit or seen.permit != PERMIT_ALL:
                    return
                permit = begun  # it began while the permit was still open

    def crowd_changed(self) -> None:
        """Somebody came or went: an open permit and an unbounded launch are only for one who is alone."""
        for resident in self.residents.values():
            if not resident.arrived:
                continue
            with suppress(BoardError):
                self._cap(resident)
                if self.alone(resident):
                    self.permit(resident)
                elif resident.permit == PERMIT_ALL:
                    self.close_permit(resident)

    def _cap(self, resident: AttachedJob) -> None:
        default = None if self.alone(resident) else DEFAULT_IN_FLIGHT
        self.board.set_inflight_cap(resident.slot, default if resident.cap is None else resident.cap)

    def settle_permits(self) -> None:
        """After events: an open permit is closed when the policy has not started the job's next iteration."""
        for resident in self.residents.values():
            if resident.permit == PERMIT_ALL and not resident.running:
                self.close_permit(resident)

    # --- measuring

    @property
    def holding(self) -> bool:
        return self._holding

    def hold(self) -> None:
        """Begin no iteration from now on."""
        self._holding = True
        for resident in self.residents.values():
            if resident.arrived:
                self.close_permit(resident)

    def release(self) -> None:
        """Begin what was held back."""
        self._holding = False
        for resident in self.residents.values():
            if resident.arrived:
                with suppress(BoardError):
                    self.permit(resident)

    def busy(self, resident: AttachedJob) -> bool:
        """Whether an iteration of it is on the device."""
        return on_device(resident, self.board.progress(resident.slot))

    def quiet(self) -> bool:
        """Whether no iteration is on the device but those that cannot go on."""
        return not any(
            resident.arrived and not resident.unresponsive and resident.away is None and self.busy(resident)
            for resident in self.residents.values()
        )

    def is_stopped(self, resident: AttachedJob) -> bool:
        """Whether the job's process is stopped, as by SIGSTOP."""
        return self._process_state(resident.hello.pid, resident.start_time) is ProcessState.STOPPED

    def stuck_bytes(self) -> int:
        """What jobs that stand still hold: nobody can have it."""
        stuck = [resident.slot for resident in self.residents.values() if resident.unresponsive]
        return sum(self.board.progress(slot).held_bytes for slot in stuck)


def on_device(resident: AttachedJob, seen: Progress) -> bool:
    """Whether an iteration of the job has begun, with a permit, and has not ended."""
    begun = seen.iteration if seen.permit == PERMIT_ALL else min(seen.iteration, seen.permit)
    return seen.taken and seen.pid == resident.hello.pid and begun > resident.ended
