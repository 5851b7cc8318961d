"""The engine in virtual time (core.control.engine): an agenda of outside events, and the native loop between them.

Order of events at one nanosecond: ops that end (jobs in the order of submission), copies that end, budget changes,
arrivals, requests, the policy's wake-up; only then memory is granted and hosts launch, the oldest iteration first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.engine import Observation
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Need
from neaptide.core.device import DeviceSpec
from neaptide.core.rules.in_flight import in_flight_cap
from neaptide.core.rules.work import requests_served
from neaptide.core.traces.trace import Phase
from neaptide.core.units import format_bytes
from neaptide.simulation import library
from neaptide.simulation.agenda import NEVER, Agenda
from neaptide.simulation.columns import PlanColumns
from neaptide.simulation.contention import Contention
from neaptide.simulation.evictions import Evictions
from neaptide.simulation.library import EventKind
from neaptide.simulation.outcome import MemorySeries
from neaptide.simulation.simulated_job import SimulatedJob

_UNBOUNDED = 2**62
_NO_LANE = -1
_CLOSED = -1  # a gate that is not open until any time


class VirtualEngine:
    """Runs submitted jobs on one device in virtual time. Call `close` when its series have been read."""

    def __init__(
        self,
        arrivals: Sequence[tuple[Job, int, Sequence[int]]],
        device: DeviceSpec,
        budget_bytes: int,
        *,
        oversubscribes: bool = False,
        contention: Contention | None = None,
        budget_changes: Sequence[tuple[int, int]] = (),
        until_ns: int | None = None,
    ) -> None:
        self._library = library.load()
        self._until_ns = NEVER if until_ns is None else until_ns
        self._budgets = [budget_bytes, *(budget for _, budget in sorted(budget_changes, key=lambda change: change[0]))]
        setting = library.structure_of("setting")(
            budget=budget_bytes,
            highest_budget=max(self._budgets),
            link_bandwidth=device.link_bandwidth,
            oversubscribes=oversubscribes,
        )
        shared = native_contention(contention or Contention())
        self._handle: int | None = self._library.neaptide_create(ctypes.byref(setting), ctypes.byref(shared))
        self._event: Any = library.structure_of("event")()
        self._event_address = ctypes.addressof(self._event)
        self._columns: dict[int, PlanColumns] = {}  # by the identity of the trace; native plans point into them
        self._jobs: dict[str, SimulatedJob] = {}
        self._by_number: list[SimulatedJob] = []
        self._numbers: dict[str, int] = {}
        self._agenda = Agenda()
        for at_ns, budget in budget_changes:
            self._agenda.expect(ev.BudgetChanged(at_ns, budget))
        for job, arrives_ns, requests_ns in arrivals:
            self._add(job, device, len(requests_ns))
            self._agenda.expect(ev.JobArrived(arrives_ns, job.name))
            for at_ns in requests_ns:
                self._agenda.expect(ev.RequestArrived(at_ns, job.name))
        self._present: list[SimulatedJob] = []  # jobs that have arrived and have not ended
        self._evictions = Evictions(self._library, self._handle, self._jobs, self._present, self.observe)
        self._ending: SimulatedJob | None = None
        self._unfinished = sum(simulated.ends for simulated in self._by_number)
        self._waits_for_all = self._unfinished > 0
        self._now_ns = 0
        self._positions = np.zeros(len(self._by_number), dtype=np.int64)
        self._held = np.zeros(len(self._by_number), dtype=np.int64)
        self._positions_address, self._held_address = self._positions.ctypes.data, self._held.ctypes.data

    def _add(self, job: Job, device: DeviceSpec, requests: int) -> None:
        number = self._library.neaptide_add_job(self._handle)
        traces = (job.trace, *job.alternatives)
        for trace in traces:
            if id(trace) not in self._columns:
                self._columns[id(trace)] = PlanColumns.of(trace, device)
            plan = self._columns[id(trace)].native()
            self._library.neaptide_add_plan(self._handle, number, ctypes.byref(plan))
        plans = tuple(self._columns[id(trace)] for trace in traces)
        simulated = SimulatedJob(
            job, number, plans, job.iterations is not None or requests > 0, job.iterations, requests
        )
        self._jobs[job.name] = simulated
        self._numbers[job.name] = simulated.number
        self._by_number.append(simulated)

    # --- core.control.engine.Engine

    @property
    def supplies(self) -> frozenset[Need]:
        return frozenset(Need) - {Need.HOLDING}  # a GPU's driver has what was launched

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def next_event(self) -> ev.Event | None:
        if self._ending is not None:
            return self._end(self._ending)
        if self._waits_for_all and self._unfinished == 0:
            return None
        self._evictions.bring_back(self._budgets[0])
        self._agenda.drop_requests(lambda job: self._jobs[job].over)
        limit = min(self._agenda.next_ns, self._until_ns)
        self._library.neaptide_advance(self._handle, limit, self._event_address)
        while self._event.kind == EventKind.STUCK:
            self._evictions.make_room()
            self._library.neaptide_advance(self._handle, limit, self._event_address)
        if self._event.kind != EventKind.NOTHING:
            self._agenda.something_happened()
            self._now_ns = self._event.at_ns
            return self._told(self._event)
        if limit == NEVER:
            return None
        self._now_ns = limit
        return None if limit == self._until_ns else self._from_outside()

    def carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self._agenda.wake_at(action.at_ns)
            return
        if isinstance(action, act.SizeLane):
            self._library.neaptide_size_lane(self._handle, action.lane, action.bytes)
            return
        simulated = self._jobs[action.job]  # type: ignore[attr-defined]
        if simulated.over or simulated is self._ending:  # it has done its work and is about to end
            return
        number, native, handle = simulated.number, self._library, self._handle
        match action:
            case act.Admit():
                simulated.admitted = True
                self._set_lane(simulated, action.lane)
                native.neaptide_admit(handle, number, NEVER if action.ceiling_bytes is None else action.ceiling_bytes)
            case act.Start():
                self._start(simulated)
            case act.SetPlan():
                simulated.plan = action.plan
                native.neaptide_set_plan(handle, number, action.plan)
            case act.SetLimit():
                simulated.limit_bytes = action.bytes
                native.neaptide_set_limit(handle, number, NEVER if action.bytes is None else action.bytes)
            case act.SetGate():
                until_ns = NEVER if action.until_ns is None else action.until_ns
                native.neaptide_set_gate(handle, number, until_ns if action.open else _CLOSED, action.holds_light)
            case act.SetClass():
                native.neaptide_set_class(handle, number, action.deadline)
            case act.SetShare():
                native.neaptide_set_share(handle, number, 1.0 if action.share is None else action.share)
            case act.CapInFlight():
                simulated.cap = action.kernels
                self._set_cap(simulated)
            case act.Suspend():
                simulated.admitted = False
                native.neaptide_suspend(handle, number)
            case act.Resume():
                simulated.admitted = True
                native.neaptide_resume(handle, number)
            case act.MoveLane():
                self._set_lane(simulated, action.lane)

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        self._library.neaptide_observe(self._handle, self._positions_address, self._held_address)
        positions, held = self._positions.tolist(), self._held.tolist()
        numbers = self._numbers
        return {job: Observation(positions[numbers[job]], held[numbers[job]]) for job in jobs}

    # --- what happens

    def _from_outside(self) -> ev.Event:
        event = self._agenda.take()
        if isinstance(event, ev.BudgetChanged):
            self._budgets.pop(0)
            self._library.neaptide_set_budget(self._handle, event.budget_bytes, max(self._budgets))
        elif isinstance(event, ev.RequestArrived):
            simulated = self._jobs[event.job]
            simulated.requests_to_come -= event.count
            simulated.waiting += event.count
        elif isinstance(event, ev.JobArrived):
            self._present.append(self._jobs[event.job])
            self._set_caps()
        return event

    def _set_caps(self) -> None:
        for simulated in self._present:
            self._set_cap(simulated)

    def _set_cap(self, simulated: SimulatedJob) -> None:
        cap = in_flight_cap(simulated.cap, len(self._present))
        self._library.neaptide_cap(self._handle, simulated.number, _UNBOUNDED if cap is None else cap)

    def _set_lane(self, simulated: SimulatedJob, lane: int | None) -> None:
        if lane is not None or simulated.lane is not None:  # the native engine need not know that there are none
            simulated.lane = lane
            self._library.neaptide_set_lane(self._handle, simulated.number, _NO_LANE if lane is None else lane)

    def _start(self, simulated: SimulatedJob) -> None:
        if simulated.job.kind is JobKind.INFERENCE:
            trace = (simulated.job.trace, *simulated.job.alternatives)[simulated.plan]
            simulated.serving = requests_served(simulated.waiting, trace.batch)
            simulated.waiting -= simulated.serving
        self._library.neaptide_start(self._handle, simulated.number)

    def _told(self, native: Any) -> ev.Event:
        simulated = self._by_number[native.job]
        at_ns, name = native.at_ns, simulated.job.name
        match native.kind:
            case EventKind.PHASE_ENDED:
                return ev.PhaseEnded(at_ns, name, Phase.FORWARD)
            case EventKind.ITERATION_ENDED:
                return self._iteration_ended(simulated, at_ns, native.value)
            case EventKind.STALLED:
                return ev.JobStalled(at_ns, name)
            case EventKind.EVICTED:
                return ev.JobEvicted(at_ns, name)
            case EventKind.SUSPENDED:
                return ev.JobSuspended(at_ns, name)
            case EventKind.RESUMED:
                return ev.JobResumed(at_ns, name)
        assert native.kind == EventKind.FAILED
        self._leave(simulated)
        needed, limit = format_bytes(native.value), format_bytes(native.limit)
        return ev.JobFailed(at_ns, name, f"out of memory: it needs {needed} and may hold {limit}")

    def _iteration_ended(self, simulated: SimulatedJob, at_ns: int, took_ns: int) -> ev.Event:
        simulated.iterations += 1
        served, simulated.serving = simulated.serving, 0
        if simulated.left is not None:
            simulated.left -= 1
        all_served = bool(served) and not simulated.waiting and simulated.requests_to_come == 0
        if simulated.left == 0 or all_served:
            self._ending = simulated
        return ev.IterationEnded(at_ns, simulated.job.name, took_ns)

    def _leave(self, simulated: SimulatedJob) -> None:
        simulated.over, simulated.admitted = True, False
        self._unfinished -= simulated.ends
        self._present.remove(simulated)
        self._evictions.forget(simulated)
        self._set_caps()

    def _end(self, simulated: SimulatedJob) -> ev.Event:
        self._ending = None
        self._leave(simulated)
        self._library.neaptide_end(self._handle, simulated.number)
        return ev.JobEnded(self._now_ns, simulated.job.name)

    # --- afterwards

    @property
    def op_events(self) -> int:
        return int(self._library.neaptide_op_events(self._handle))

    @property
    def peak_bytes(self) -> int:
        return int(self._library.neaptide_peak(self._handle))

    @property
    def over_budget_bytes(self) -> int:
        return int(self._library.neaptide_over(self._handle))

    def memory(self) -> Mapping[str, MemorySeries]:
        """The bytes that each job held over time."""
        return {name: self._series(simulated.number) for name, simulated in self._jobs.items()}

    def total(self) -> MemorySeries:
        """The bytes that all jobs held together over time."""
        return self._series(-1)

    def _series(self, number: int) -> MemorySeries:
        size = self._library.neaptide_series_length(self._handle, number)
        at_ns, held = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        self._library.neaptide_series(self._handle, number, at_ns.ctypes.data, held.ctypes.data)
        return MemorySeries(at_ns, held)

    def close(self) -> None:
        """Give the native engine's memory back."""
        if self._handle is not None:
            self._library.neaptide_destroy(self._handle)
            self._handle = None


def native_contention(contention: Contention) -> ctypes.Structure:
    """The parameters as the native engine takes them."""
    return library.structure_of("contention")(tuple(contention.capacities), contention.wave_seconds)
