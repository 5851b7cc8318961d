"""The engine on real processes (core.control.engine): writes a policy's actions to the board, and queues events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.engine import Observation
from neaptide.core.control.policy import Need
from neaptide.devices.board import Board, BoardError
from neaptide.devices.board.figures import ProcessState
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, UnreportedIterations
from neaptide.live.daemon.clock import Clock
from neaptide.live.daemon.host_moves import HostMoves
from neaptide.live.daemon.permits import Permits
from neaptide.live.protocol.messages import IterationEnded

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
    ) -> None:
        self.board = board
        self.jobs: dict[str, AttachedJob] = {}  # in the order of Hello
        self.host_moves = HostMoves(board, self.post, clock.now_ns)
        self.permits = Permits(board, self.jobs, clock.now_ns)
        self._kind = kind
        self._clock = clock
        self._process_state = process_state
        self._wake_at = wake_at
        self._events: deque[ev.Event] = deque()

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
        job = self.jobs.get(action.job)  # type: ignore[attr-defined]
        if job is None:  # it is gone, and the event that says so comes next
            return
        with suppress(BoardError):  # its process has just died
            self._carry_out_on(job, action)

    def _carry_out_on(self, job: AttachedJob, action: act.Action) -> None:
        match action:
            case act.Start():
                job.started += 1
                job.iteration_begins(self.board.progress(job.slot).done)
                self.permits.give(job)
            case act.Admit():
                if action.ceiling_bytes is not None:
                    chunks = -(-action.ceiling_bytes // self._kind.chunk_bytes)
                    chunks += max(_SPARE_CHUNKS, chunks // _SPARE_SHARE)
                    self.board.set_ceiling(job.slot, chunks * self._kind.chunk_bytes)
                self.host_moves.restore(job, EvictionReason.QUEUE)
            case act.Suspend():
                self.host_moves.evict(job, EvictionReason.POLICY)
            case act.Resume():
                self.host_moves.restore(job, EvictionReason.POLICY)
            case act.SetGate():
                job.gate_open = action.open
                self.board.set_heavy_open(job.slot, action.open)
            case act.CapInFlight():
                job.cap = action.kernels
                self.permits.set_cap(job)
            case act.SetPlan():
                raise AssertionError("a live job has one plan, and the ledger refuses another")
            case act.MoveLane():  # lanes concern the policy alone
                pass

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        done, held = self.board.read_counters()
        seen = {}
        for name in jobs:
            job = self.jobs.get(name)
            if job is None:  # it is gone, and the event that says so comes next
                seen[name] = Observation(0, 0)
            else:
                seen[name] = Observation(job.position_ns(done[job.slot]), held[job.slot])
        return seen

    # --- what happens

    def post(self, event: ev.Event) -> None:
        """Queue an event; the controller handles it when it runs."""
        self._events.append(event)

    def add(self, job: AttachedJob) -> None:
        """A job has said Hello: its permit is closed, and no job is alone any more."""
        self.jobs[job.name] = job
        self.permits.close(job)
        job.started = job.ended = min(job.hello.ended, job.permit)
        self.host_moves.greet(job)
        self.permits.jobs_changed()

    def remove(self, job: AttachedJob) -> None:
        """A job is gone."""
        del self.jobs[job.name]
        self.host_moves.forget(job)
        self.permits.jobs_changed()

    def iteration_ended(self, job: AttachedJob, ended: IterationEnded) -> None:
        """Count an iteration that the device has passed. An iteration that the policy did not start is only counted.

        The iterations of a job that runs ahead are reported to the controller together, by `report_iterations`.
        """
        to_report = job.running and (job.runs_ahead or ended.index < job.started)
        job.ended = max(job.ended, ended.index + 1)
        job.started = max(job.started, job.ended)
        job.ends_ns.append(self.now_ns)
        job.done_iterations += 1
        job.busy_ns += ended.took_ns
        if to_report and job.ended == job.started:
            job.unreported.add(ended)

    def report_iterations(self) -> None:
        """Post one event for all iterations of a job that have ended since the last report."""
        for job in self.jobs.values():
            ended, job.unreported = job.unreported, UnreportedIterations()
            if ended.count and job.running:
                job.iterations_end(self.board.progress(job.slot).done, ended.count)
                self.post(
                    ev.IterationEnded(self.now_ns, job.name, ended.took_ns, iterations=ended.count, work=ended.work)
                )

    # --- what is known of processes

    def is_stopped(self, job: AttachedJob) -> bool:
        """Whether the job's process is stopped, as by SIGSTOP."""
        return self._process_state(job.hello.pid, job.start_time) is ProcessState.STOPPED

    def stuck_bytes(self) -> int:
        """Bytes that unresponsive jobs hold: no other job can have them."""
        return sum(self.board.progress(job.slot).held_bytes for job in self.jobs.values() if job.unresponsive)
