"""The engine on real processes (core.control.engine): writes a policy's actions to the board, and queues events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.engine import Observation
from neaptide.core.control.policy import Need
from neaptide.core.control.refusals import MOST_LANES
from neaptide.devices.board import Board, BoardError
from neaptide.devices.board.figures import ALWAYS, ProcessState
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, UnreportedIterations
from neaptide.live.daemon.clock import Clock
from neaptide.live.daemon.host_moves import HostMoves
from neaptide.live.daemon.permits import Permits, on_device
from neaptide.live.protocol.messages import IterationEnded, ProtocolError

# A ceiling is set this much above what a job needs: memory is leased in chunks, with gaps between the blocks in them.
_SPARE_CHUNKS = 4
_SPARE_SHARE = 8  # or an eighth

ProcessStateOf = Callable[[int, int], ProcessState]  # of the process with this pid and start time


class LiveEngine:
    """Carries out a policy's actions on the processes of one board."""

    def __init__(
        self,
        board: Board,
        kind: DeviceKind,
        clock: Clock,
        process_state: ProcessStateOf,
        wake_at: Callable[[int], None],
        *,
        oversubscribes: bool = False,
    ) -> None:
        self.board = board
        self.oversubscribes = oversubscribes and Need.PAGING in kind.supplies  # nobody waits for memory
        self.jobs: dict[str, AttachedJob] = {}  # in the order of Hello
        self.jobs_changed_ns = 0  # when a job last came or left
        self.host_moves = HostMoves(board, self.post, clock.now_ns)
        self.permits = Permits(board, self.jobs, clock.now_ns)
        self._kind = kind
        self._clock = clock
        self._process_state = process_state
        self._wake_at = wake_at
        self._events: deque[ev.Event] = deque()
        self._unreported: list[AttachedJob] = []  # those with iterations of which the controller was not told
        self._lanes = dict.fromkeys(range(MOST_LANES), 0)  # their sizes; a daemon before this one may have left some
        self._write_board()

    # --- core.control.engine.Engine

    @property
    def supplies(self) -> frozenset[Need]:
        return self._kind.supplies

    @property
    def now_ns(self) -> int:
        return self._clock.now_ns()

    def next_event(self) -> ev.Event | None:
        """The next event that was posted; never waits."""
        return self._events.popleft() if self._events else None

    def carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self._wake_at(action.at_ns)
            return
        if isinstance(action, act.SizeLane):
            self._lanes[action.lane] = action.bytes
            self.board.set_lane_bytes(action.lane, action.bytes)
            return
        job = self.jobs.get(action.job)  # type: ignore[attr-defined]
        if job is None:  # it is gone, and the event that says so comes next
            return
        with suppress(BoardError):  # its process has just died
            self._carry_out_on(job, action)

    def _carry_out_on(self, job: AttachedJob, action: act.Action) -> None:
        match action:
            case act.Start():
                job.started += 1
                job.iteration_begins(self.board.kernels_done(job.slot))
                self.permits.give(job)
            case act.Admit():
                self._set_lane(job, action.lane)
                if action.ceiling_bytes is not None:
                    self.set_ceiling(job, action.ceiling_bytes)
                self.host_moves.restore(job, EvictionReason.QUEUE)
            case act.Suspend():
                self.host_moves.evict(job, EvictionReason.POLICY)
            case act.Resume():
                self.host_moves.restore(job, EvictionReason.POLICY)
            case act.SetGate():
                job.gate = action
                self._set_gate(job)
            case act.SetClass():
                job.in_deadline_class = action.deadline
                self.board.set_deadline_class(job.slot, action.deadline)
            case act.SetShare():
                job.share = action.share
                self.board.set_share(job.slot, action.share)
            case act.CapInFlight():
                job.cap = action.kernels
                self.permits.set_cap(job)
            case act.SetPlan():
                raise AssertionError("a live job has one plan, and the ledger refuses another")
            case act.SetLimit():
                job.limit_bytes = action.bytes
                self.board.set_limit(job.slot, action.bytes)
            case act.MoveLane():
                self._set_lane(job, action.lane)

    def set_ceiling(self, job: AttachedJob, needed_bytes: int) -> None:
        """Let the job lease what it takes to hold this much."""
        chunks = -(-needed_bytes // self.board.chunk_bytes)
        chunks += max(_SPARE_CHUNKS, chunks // _SPARE_SHARE)
        job.ceiling_bytes = chunks * self.board.chunk_bytes
        with suppress(BoardError):  # its process has just died
            self.board.set_ceiling(job.slot, job.ceiling_bytes)

    def _set_lane(self, job: AttachedJob, lane: int | None) -> None:
        job.lane = lane
        self.board.set_lane(job.slot, lane)

    def _set_gate(self, job: AttachedJob) -> None:
        gate = job.gate
        until_ns = ALWAYS if gate.until_ns is None else self._clock.device_ns(gate.until_ns)
        self.board.set_gate(job.slot, until_ns if gate.open else 0, gate.holds_light)

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        done, held = self.board.read_counters()
        now_ns = self.now_ns
        seen = {}
        for name in jobs:
            job = self.jobs.get(name)
            if job is None:  # it is gone, and the event that says so comes next
                seen[name] = Observation(0, 0)
            else:
                seen[name] = Observation(job.position_ns(done[job.slot], now_ns), held[job.slot])
        return seen

    # --- what happens

    def post(self, event: ev.Event) -> None:
        """Queue an event; the controller handles it when it runs."""
        self._events.append(event)

    def add(self, job: AttachedJob) -> None:
        """A job has said Hello: its permit is closed, and no job is alone any more."""
        self.jobs[job.name] = job
        job.greeted_ns = self.jobs_changed_ns = self.now_ns
        job.extra = None if job.hello.resumed else 0
        with suppress(BoardError):  # its process has just died
            self._set_lane(job, None)
            self.board.set_limit(job.slot, None)
        self.permits.close(job)
        job.started = job.ended = job.done_iterations = min(job.hello.ended, job.permit)
        self.host_moves.greet(job)
        self.permits.jobs_changed()

    def remove(self, job: AttachedJob) -> None:
        """A job is gone."""
        if self.jobs.get(job.name) is job:
            del self.jobs[job.name]
        self.jobs_changed_ns = self.now_ns
        self.host_moves.forget(job)
        self.permits.jobs_changed()

    def iteration_ended(self, job: AttachedJob, ended: IterationEnded) -> int:
        """Count the iterations that the device has passed. Those that the policy did not start are only counted.

        The iterations of a job that runs ahead are reported to the controller together, by `report_iterations`.
        Returns how many have ended on the board.
        """
        if ended.index >= self.board.iterations_begun(job.slot):
            raise ProtocolError(f"iteration {ended.index} has not begun on the board")
        count = max(ended.index + 1 - job.ended, 1)
        job.ended = max(job.ended, ended.index + 1)
        job.started = max(job.started, job.ended)
        if not job.arrived:
            return count
        job.note_ends(self.now_ns, count, ended.took_ns)
        steps = count + job.extra_since(ended.extra)
        job.done_iterations += steps
        if job.running and job.ended == job.started:  # the one that the policy started has ended, or a later one
            if not job.unreported.count:
                self._unreported.append(job)
            job.unreported.add(ended, count, steps)
        elif not (job.running or job.trains):  # it ran without a start, so none is due to its request
            self.post(ev.CallWithdrawn(self.now_ns, job.name))
        return count

    def take_back_permit(self, job: AttachedJob) -> bool:
        """Take back the start of the running iteration; False, changing nothing, when it has begun."""
        self.permits.close(job)
        if on_device(job, self.board.progress(job.slot)):
            self.permits.give(job)
            return False
        job.started -= 1
        job.running = False
        return True

    def report_iterations(self) -> None:
        """Post one event for all iterations of a job that have ended since the last report."""
        if not self._unreported:
            return
        jobs, self._unreported = self._unreported, []
        for job in jobs:
            ended, job.unreported = job.unreported, UnreportedIterations()
            if job.running and self.jobs.get(job.name) is job:
                job.iterations_end(self.board.kernels_done(job.slot), ended.count)
                self.post(
                    ev.IterationEnded(self.now_ns, job.name, ended.took_ns, iterations=ended.count, work=ended.work)
                )

    def reassert(self) -> None:
        """Write again what the board should say of each job, where it was damaged or where the job went on meanwhile.

        While the daemon was silent, evicted jobs have come back by themselves.
        """
        self._write_board()
        for job in self.jobs.values():
            seen = self.board.progress(job.slot)
            if not seen.taken or seen.pid != job.hello.pid:
                continue
            with suppress(BoardError):  # its process has just died
                self._set_gate(job)
                self.board.set_deadline_class(job.slot, job.in_deadline_class)
                self.board.set_share(job.slot, job.share)
                self.board.set_ceiling(job.slot, job.ceiling_bytes)
                self.board.set_limit(job.slot, job.limit_bytes)
                self.board.set_lane(job.slot, job.lane)
                self.permits.reassert(job)
                self.host_moves.reassert(job, seen)

    def close_lanes(self) -> None:
        """Leave the jobs no lanes: nobody will size them."""
        self._lanes = dict.fromkeys(self._lanes, 0)
        self._size_lanes()

    def _write_board(self) -> None:
        self._size_lanes()
        self.board.set_oversubscribed(self.oversubscribes)

    def _size_lanes(self) -> None:
        for lane, size_bytes in self._lanes.items():
            self.board.set_lane_bytes(lane, size_bytes)

    # --- what is known of processes

    @property
    def all_run_ahead(self) -> bool:
        """Whether there are jobs, and none waits for what the daemon decides."""
        return bool(self.jobs) and all(job.runs_ahead for job in self.jobs.values())

    def is_there(self, job: AttachedJob) -> bool:
        """Whether the job's process lives and has its slot on the board."""
        seen = self.board.progress(job.slot)
        alive = self._process_state(job.hello.pid, job.start_time) is not ProcessState.GONE
        return alive and seen.taken and seen.pid == job.hello.pid

    def is_stopped(self, job: AttachedJob) -> bool:
        """Whether the job's process is stopped, as by SIGSTOP."""
        return self._process_state(job.hello.pid, job.start_time) is ProcessState.STOPPED

    def stuck_bytes(self) -> int:
        """Bytes that unresponsive jobs hold: no other job can have them."""
        return sum(self.board.progress(job.slot).held_bytes for job in self.jobs.values() if job.unresponsive)

    def newcomer_bytes(self) -> int:
        """Bytes that policies must leave to jobs that were not measured."""
        return sum(job.counted_bytes for job in self.jobs.values() if job.is_new and not job.unresponsive)
