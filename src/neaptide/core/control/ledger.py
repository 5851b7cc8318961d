"""Keeps an account of every job: events and accepted actions change it (refusals.py says which are not).

Admitted jobs fit the budget by the admission rule (core.rules.admission), so every iteration that is started also ends.
How many iterations run at once is the policy's decision.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.account import Account, discard
from neaptide.core.control.engine import Observation
from neaptide.core.control.job import INFERENCE, QUEUED, READY, RUNNING, SUSPENDED, Job, JobState
from neaptide.core.control.refusals import Refusals
from neaptide.core.control.shares import Shares
from neaptide.core.control.view import View
from neaptide.core.rules.patience import KEPT_NS
from neaptide.core.rules.work import requests_served, work_ns
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace

_OF_NO_JOB = (ev.BudgetChanged, ev.Woken)


class Ledger:
    """The accounts of all jobs under one budget. Only events and accepted actions change it."""

    def __init__(
        self,
        jobs: Iterable[Job],
        budget_bytes: int,
        *,
        oversubscribes: bool = False,
        overflow: bool = False,
        holds_launched: bool = False,
    ) -> None:
        if budget_bytes <= 0:
            raise ValueError(f"the budget must be positive, not {budget_bytes} bytes")
        self.budget_bytes = budget_bytes
        self.lanes: dict[int, int] = {}  # the size of each lane that has one
        self._overflow = overflow  # the device has it
        self._holds_launched = holds_launched
        profile_of = lru_cache(maxsize=None)(Profile.of)  # jobs may share a trace
        self._accounts: dict[str, Account] = {}
        self._present: dict[str, Account] = {}  # arrived and not ended, in the order of arrival
        self._shares = Shares(self._present)
        self._refusals = Refusals(self._present, self.lanes, oversubscribes, overflow)
        for job in jobs:
            self._open(job, profile_of)

    def account(self, job: str) -> Account:
        return self._accounts[job]

    def knows(self, job: str) -> bool:
        return job in self._accounts

    def is_present(self, job: str) -> bool:
        """Whether the job has arrived and has not ended."""
        return job in self._present

    def add(self, job: Job, overhead: LeaseOverhead | None = None) -> Account:
        """Open an account for a job whose JobArrived comes next. It may reuse the name of a job that has ended."""
        if job.name in self._present:
            raise ValueError(f"there is a job called {job.name} already; give this one another name")
        return self._open(job, lambda trace: Profile.of(trace, Leases.of(trace, overhead)))

    def renew(self, job: Job, overhead: LeaseOverhead | None = None) -> Account:
        """Replace what is known of a present job's iteration; its JobMeasured comes next."""
        account = self._present[job.name]
        account.job, account.plan, account.shown = job, 0, None
        account.plans = (Profile.of(job.trace, Leases.of(job.trace, overhead)),)
        return account

    def largest_need_bytes(self) -> int:
        """The most that one of the present jobs needs. Changes nothing."""
        return max((account.profile.peak_bytes for account in self._present.values()), default=0)

    def admitted_profiles(self) -> list[Profile]:
        """What the admitted jobs need. Changes nothing."""
        return [account.profile for account in self._present.values() if account.admitted]

    def forget(self, job: str) -> None:
        """Close the account of a job, if it has one. Nothing is kept of the job, ended or not."""
        self._accounts.pop(job, None)
        self._present.pop(job, None)
        for account in self._accounts.values():
            account.beside.pop(job, None)
            account.met.discard(job)

    def _open(self, job: Job, profile_of: Callable[[Trace], Profile]) -> Account:
        account = Account(job, tuple(profile_of(trace) for trace in (job.trace, *job.alternatives)))
        self._accounts[job.name] = account
        return account

    # --- events

    def current(self, event: ev.Event) -> ev.Event | None:
        """The event as it applies now; None when an earlier event or action has overtaken it. Changes nothing.

        An engine reports what it saw, and the controller may have answered other events in between: a job may have
        ended or may be suspended already. The end of an iteration gets the arrival times of the requests it served.
        """
        if isinstance(event, _OF_NO_JOB):
            return event
        account = self._accounts.get(event.job)  # type: ignore[attr-defined]
        if account is None or account.state.ended:
            return None
        if account.job.name not in self._present and not isinstance(event, ev.JobArrived):
            return None
        match event:
            case ev.JobEvicted():
                return event if account.admitted or event.unresponsive else None
            case ev.IterationEnded():
                if account.state_on_device is not RUNNING:
                    return None
                return msgspec.structs.replace(event, arrivals_ns=account.serving)
            case ev.JobEnded() if account.state is QUEUED:
                return ev.JobFailed(event.at_ns, event.job, "it ended before it was admitted")
        return event

    def apply(self, event: ev.Event) -> None:
        """Change the accounts as an event says; it must be current."""
        if isinstance(event, ev.BudgetChanged):
            self.budget_bytes = event.budget_bytes
        elif not isinstance(event, ev.Woken):
            self._apply_to(self._accounts[event.job], event)  # type: ignore[attr-defined]

    def _apply_to(self, account: Account, event: ev.Event) -> None:
        account.shown = None
        match event:
            case ev.JobArrived():
                account.arrived_ns = account.since_ns = event.at_ns
                self._present[account.job.name] = account
                self._shares.join(account)
            case ev.RequestArrived():
                arrived_ns = event.at_ns if event.arrived_ns is None else event.arrived_ns
                for _ in range(event.count):
                    self._take_request(account, event, arrived_ns)
            case ev.RequestCalled():
                account.expect_no_more(event.arrived_ns)
                if not event.joins:
                    self._await_iteration(account, event.arrived_ns)
                elif account.state_on_device is RUNNING:
                    account.serving += (event.arrived_ns,)
                else:
                    account.joining += (event.arrived_ns,)
            case ev.RequestAnswered():
                # If the program has called its model for it, the call waits for an iteration all the same.
                account.expect_no_more(event.arrived_ns)
                discard(account.unanswered, event.arrived_ns)
                account.answering = tuple(each for each in account.answering if each != event.arrived_ns)
                called = (*account.requests, *account.joining, *account.serving)
                account.answered_early += (event.arrived_ns,) if event.arrived_ns in called else ()
                account.answered(max(event.at_ns - event.arrived_ns, 0))
            case ev.CallWithdrawn():
                self._withdraw_call(account, event.at_ns)
            case ev.IterationEnded():
                self._end_iteration(account, event)
            case ev.JobStalled():
                account.stalled = True
            case ev.JobGrew():
                account.replace_plan(account.plans[account.plan].grown_to(event.peak_bytes, event.at_rest_bytes))
            case ev.JobMeasured():
                account.time_alone_changes(event.solo_ns)
                account.replace_plan(account.plans[account.plan].timed(event.solo_ns))
            case ev.JobSuspended():
                account.moved_ns = event.at_ns - account.asked_to_move_ns
            case ev.JobEvicted() if not account.admitted:  # it was to move its bytes, or waits in the queue
                account.unresponsive = account.hidden = True
            case ev.JobEvicted():
                account.evicted, account.unresponsive = True, event.unresponsive
                self._suspend(account, event.at_ns)
            case ev.JobResumed():
                self._resumed(account, event)
            case ev.JobEnded():
                self._end(account, JobState.DONE, event.at_ns)
            case ev.JobFailed() | ev.JobLeft():
                self._end(account, JobState.FAILED, event.at_ns)

    def _take_request(self, account: Account, event: ev.RequestArrived, arrived_ns: int) -> None:
        """Note a sample. An expected one waits for the call of the model first, any other for an iteration."""
        if event.tracked:
            insort(account.unanswered, arrived_ns)
        if event.expected:
            account.expect(arrived_ns, event.at_ns)
        else:
            self._await_iteration(account, arrived_ns)

    def _await_iteration(self, account: Account, arrived_ns: int) -> None:
        if not account.requests and account.state is READY:
            self._shares.join(account)
        insort(account.requests, arrived_ns)

    def _withdraw_call(self, account: Account, now_ns: int) -> None:
        account.withdraw_call(now_ns)
        if account.state is RUNNING:
            account.move(READY, now_ns)
        elif account.state_on_device is RUNNING:
            account.before_suspension = READY

    def _resumed(self, account: Account, event: ev.JobResumed) -> None:
        now_ns = event.at_ns
        if account.hidden:  # the job responds again, and its state is as it was
            account.unresponsive = account.hidden = False
            return
        if event.kept:
            account.kept_until_ns = now_ns + KEPT_NS
        in_vain = event.kept and account.state is SUSPENDED  # a policy suspended it
        if not account.evicted and not in_vain:  # resumed by a policy: the account changed with the action
            account.moved_ns = max(account.moved_ns, now_ns - account.asked_to_move_ns)
            return
        self._shares.join(account, 0 if account.unresponsive else account.turn_ns)
        account.evicted = account.unresponsive = False
        account.lane_since_ns = now_ns
        account.move(account.before_suspension, now_ns)

    def _suspend(self, account: Account, now_ns: int) -> None:
        self._shares.leave()
        account.stalled = False
        account.before_suspension = account.state
        account.move(SUSPENDED, now_ns)

    def _end(self, account: Account, state: JobState, now_ns: int) -> None:
        if account.state is SUSPENDED:  # it was suspended just when its last iteration ended
            account.move(account.before_suspension, now_ns)
        self._shares.leave()
        account.move(state, now_ns)
        del self._present[account.job.name]

    def _end_iteration(self, account: Account, event: ev.IterationEnded) -> None:
        if account.state is SUSPENDED:  # it was suspended just when the device passed its last op
            account.before_suspension = READY
        else:
            account.move(READY, event.at_ns)
        account.stalled = False
        done_ns = work_ns(account.profile.solo_ns, event.iterations, event.work)
        account.iterations_done += event.iterations
        account.served(event.at_ns)
        if account.job.kind is INFERENCE:
            account.sizes.append((event.iterations if event.work is None else event.work) / event.iterations)
        account.recent_ns = event.took_ns // event.iterations
        account.service_ns += done_ns
        self._shares.serve(account, done_ns)
        account.busy_ns += event.took_ns
        for name in account.met:
            account.slowed(name, max(event.took_ns, 1) / max(done_ns, 1))  # an iteration may be empty
        account.met.clear()

    # --- actions

    def refusal(self, action: act.Action, now_ns: int) -> str | None:
        """Why an action must not be carried out; None when it may. Changes nothing."""
        return self._refusals.of(action, now_ns, self.budget_bytes)

    def cannot_move(self, job: str, now_ns: int) -> bool:
        """Whether the job's bytes cannot be moved to host memory for now. Changes nothing."""
        account = self._present.get(job)
        return account is not None and now_ns < account.kept_until_ns

    def commit(self, action: act.Action, now_ns: int) -> None:
        """Change the accounts as an action says; it must not have been refused."""
        if isinstance(action, act.WakeAt):
            return
        if isinstance(action, act.SizeLane):
            self.lanes[action.lane] = action.bytes
            if action.bytes == 0:
                del self.lanes[action.lane]
            return
        account = self._accounts[action.job]  # type: ignore[attr-defined]
        account.shown = None
        match action:
            case act.Admit():
                account.lane, account.lane_since_ns = action.lane, now_ns
                account.ceiling_bytes = action.ceiling_bytes
                self._shares.join(account)
                account.move(READY, now_ns)
            case act.Start():
                self._start(account, now_ns)
            case act.SetPlan():
                account.plan = action.plan
            case act.SetLimit():
                account.limit_bytes = action.bytes
            case act.MoveLane():
                account.lane, account.lane_since_ns = action.lane, now_ns
            case act.SetGate():
                account.gate_open, account.gate_until_ns = action.open, action.until_ns
                account.gate_holds_light = action.holds_light
            case act.SetClass():
                account.in_deadline_class = action.deadline
            case act.SetShare():
                account.share = action.share
            case act.CapInFlight():
                account.in_flight = action.kernels
            case act.Suspend():
                account.asked_to_move_ns = now_ns
                self._suspend(account, now_ns)
            case act.Resume():
                account.lane_since_ns = account.asked_to_move_ns = now_ns
                self._shares.join(account, account.turn_ns)
                account.move(account.before_suspension, now_ns)

    def _start(self, account: Account, now_ns: int) -> None:
        account.move(RUNNING, now_ns)
        account.started_ns = now_ns
        if account.job.kind is INFERENCE:
            served = requests_served(len(account.requests), account.profile.batch)
            account.serving, account.joining = (*account.requests[:served], *account.joining), ()
            del account.requests[:served]
        for other in self._present.values():
            if other is not account and other.state is RUNNING:
                account.met.add(other.job.name)
                other.met.add(account.job.name)

    # --- views

    def visible_jobs(self) -> list[str]:
        """The jobs that policies see, in the order of arrival: a job that does not respond is hidden."""
        return [name for name, account in self._present.items() if not account.unresponsive]

    def view(self, event: ev.Event, seen: Mapping[str, Observation]) -> View:
        """The policy's view after an event was applied; `seen` has the visible jobs. Changes nothing."""
        present, of_priority = self._present, self._shares.of_priority
        if self._shares.all_alike:
            jobs = tuple([present[name].view(each) for name, each in seen.items()])
        else:
            accounts = [(present[name], each) for name, each in seen.items()]
            jobs = tuple([account.view(each, of_priority(account.job.priority)) for account, each in accounts])
        return View(
            now_ns=event.at_ns,
            event=event,
            budget_bytes=self.budget_bytes,
            held_bytes=sum([job.held_bytes for job in jobs]),
            jobs=jobs,
            lanes=dict(self.lanes),
            overflow=self._overflow,
            holds_launched=self._holds_launched,
        )
