"""Our own policy: staggering, residence by rank with ageing, SLO slack and the choice of plans in one rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, SetGate, SetPlan, Start, Suspend, WakeAt
from neaptide.core.control.job import QUEUED, READY, RUNNING
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work, over_budget
from neaptide.policies.parts.danger import NO_DANGER, Danger
from neaptide.policies.parts.deadlines import put_first
from neaptide.policies.parts.idle import asked_again
from neaptide.policies.parts.plans import best_plan
from neaptide.policies.parts.ranking import Ranking
from neaptide.policies.parts.request_memory import keep_ready
from neaptide.policies.parts.residence import Residence
from neaptide.policies.parts.shares import Competition, due
from neaptide.policies.parts.slack import NEVER, Slack, ops_of_others_ns
from neaptide.policies.parts.stagger import Stagger, caps


@dataclass(frozen=True)
class Neaptide(Policy):
    """At every event it takes these steps.

    1. Rank. Jobs with an SLO come first, then higher priorities, jobs that have waited long, and short jobs
       (parts/ranking.py).
    2. Residence. Jobs are admitted by rank while the ledger's rule holds. For the first job that does not fit, longer
       jobs are suspended; if that is not enough, other jobs pass it until it has waited too long (parts/residence.py).
       Jobs of unknown length that do not fit together take turns (parts/turns.py).
    3. Plans. A job with several plans takes the one with the highest predicted throughput of the device
       (parts/plans.py).
    4. SLO. A batch starts when it is full, when waiting longer is unsafe, or when the device has nothing else to do.
       Its ops go before those of other jobs that have not begun (the deadline class, where the device has it). When
       requests of SLO-bound jobs, earliest deadline first, have used up their slack, the gates of all other jobs close,
       early enough for the ops that are on the device to end (parts/danger.py). What their requests need of the memory
       is kept ready for them if the other jobs can still run (parts/request_memory.py).
    5. Staggering. The other jobs start in the order in which their priorities are due, and a job that competes with one
       that is due before it waits (parts/shares.py). Jobs of one priority start by rank. Each starts after the smallest
       delay for which all curves fit the budget less the ephemeral bytes that SLO-bound jobs may need at any time
       (Zico's rule, parts/stagger.py), and only if sharing pays:
       - With more than two such jobs, or two whose peaks do not fit together, an iteration starts while all running
         ones use at most `width` of the device, or while the device gains at least `gain` of the job's speed alone. A
         job of utilisation u beside others of total utilisation U runs at 1 / (1 + U) of its speed, so the gain is
         (1 - u) / (1 + U). So small jobs run all at once, larger ones in pairs, and jobs that fill the device take
         turns, shortest first, since sharing would only delay the shorter one.
       - Beside a single job, if both peaks fit together, an iteration starts only if running together was not clearly
         slower than taking turns in the last iterations: 1 / slowdown of one + 1 / slowdown of the other >=
         `worth_sharing`. This is tried again every `try_again` iterations. A job's first iteration does not start while
         a job of the same network is in its forward pass: equal jobs that start together stay in step for ever.
       - A delay shorter than `early` is ignored: the iteration runs beside the others until it has to wait for memory.
    """

    name = "neaptide"
    needs = frozenset({Need.CURVE, Need.PROGRESS, Need.ITERATION_TIME, Need.SUSPEND, Need.GATE, Need.PHASES})
    patience: float = 10.0
    width: float = 1.9
    gain: float = 0.2
    worth_sharing: float = 0.95  # below 1, because a few iterations prove little
    try_again: int = 64
    in_flight: int = 64  # cap while the peaks do not fit together; a sixteenth of an iteration's kernels, if fewer
    early: float = 0.5  # of an iteration alone: a shorter delay is ignored
    behind: int = 2  # jobs tried after the first that must wait
    spare: float = 0.02  # of a deadline, in which a batch does not wait for more samples
    lead: float = 1.15  # factor on the time that a batch is expected to take
    shortest_wait_ns: int = 50_000

    def decide(self, view: View) -> Sequence[Action]:
        if leave := over_budget(view):
            return [Suspend(job.name) for job in leave]
        ranking = Ranking(view, self.patience)
        actions, here = self._settled(view, ranking)
        here = self._plans(here, ranking, actions)
        actions += caps(here, view.budget_bytes, self.in_flight, view.holds_launched)
        bound, others = _apart_by_deadline(here) if view.has_deadlines else ([], here)
        danger = Danger.of(bound, others, self.lead, view.now_ns) if bound else NO_DANGER
        actions += [*put_first(bound), *keep_ready(here, view.budget_bytes, view.lanes)]
        actions += [SetGate(job.name, open=True) for job in bound if not job.gate_open or job.gate_until_ns]
        actions += danger.gates(others, view.now_ns)
        wake_ns = min(danger.wake_ns(view.now_ns), self._starts(here, danger, ranking, actions))
        if wake_ns < NEVER:
            actions.append(WakeAt(max(wake_ns, view.now_ns + self.shortest_wait_ns)))
        return asked_again(actions, view)

    def _settled(self, view: View, ranking: Ranking) -> tuple[list[Action], list[JobView]]:
        """The actions that bring jobs to the device or suspend them, and the jobs that are then on it.

        These are by rank, except where nobody came or left: ranking all jobs at every event would take long.
        """
        if not view.away:
            return [], list(view.jobs)
        ranked = ranking.ranked(view.jobs)
        return Residence(ranked, view.budget_bytes, view.now_ns, self.in_flight, ranking.aged).settle()

    def _plans(self, here: list[JobView], ranking: Ranking, actions: list[Action]) -> list[JobView]:
        several = [job for job in here if len(job.plans) > 1 and job.wants_to_run]
        if not several:
            return here
        now = {job.name: job for job in here}
        for job in ranking.ranked(several):
            others = [other.profile for other in now.values() if other.name != job.name]
            plan = best_plan(job, others, ranking.view.budget_bytes, self.in_flight)
            if plan is not None and plan != job.plan:
                actions.append(SetPlan(job.name, plan))
                now[job.name] = job.following(plan)
        return list(now.values())

    def _starts(self, here: Sequence[JobView], danger: Danger, ranking: Ranking, actions: list[Action]) -> int:
        """Adds the starts; returns when the next one may be possible."""
        view, running = ranking.view, [job for job in here if job.state is RUNNING]
        ready = [job for job in here if job.state in (READY, QUEUED) and has_work(job)]
        if not ready:
            return NEVER
        ready, wake_ns = ready if view.away else ranking.ranked(ready), NEVER
        bound, others = _apart_by_deadline(ready) if view.has_deadlines else ([], ready)
        if view.has_priorities:
            competition = Competition(here, view.now_ns)
            others = sorted([job for job in others if competition.may_start(job)], key=due)
            wake_ns = competition.wake_ns or NEVER
        serve_ns = self._serve_ns(bound, here, danger)
        batches = [job for job in bound if serve_ns[job.name] <= view.now_ns or not (running or others)]
        wake_ns = min([wake_ns, *[serve_ns[job.name] for job in bound if job not in batches]])

        free_bytes = view.budget_bytes - sum([job.profile.persistent_bytes for job in here])
        kept_bytes = 0  # what the next requests need
        if view.has_deadlines:
            idle = [job for job in here if job.deadline_ns is not None and job.state is not RUNNING]
            kept_bytes = sum([job.profile.ephemeral_bytes for job in idle if job not in batches])
        if kept_bytes and any(job.profile.ephemeral_bytes > free_bytes - kept_bytes for job in others):
            kept_bytes = 0  # else that job could never run; a batch may have to wait for it instead

        crowd = len([job for job in view.jobs if job.deadline_ns is None] if view.has_deadlines else view.jobs) > 2
        used: dict[int, float] = {}  # utilisation by the number of running jobs, to which jobs are only added

        def pays(job: JobView, beside: Sequence[JobView]) -> bool:
            if len(beside) not in used:
                used[len(beside)] = sum([other.profile.utilisation for other in beside if other.deadline_ns is None])
            narrow = crowd or self._apart(job, beside, free_bytes)
            if narrow and not self._room_beside(used[len(beside)], job.profile.utilisation):
                return False
            return self._pays_beside_one(job, beside, free_bytes)

        if len(running) == 1 and others and not pays(others[0], running):
            others = others[:1]  # start no job ranked behind it, which would only delay its turn

        stagger = Stagger(self.in_flight, self.early, self.behind)
        starts, delay_ns = stagger.plan(others, [*running, *batches], free_bytes - kept_bytes, pays)
        actions += [Start(job.name) for job in [*batches, *starts]]
        return wake_ns if delay_ns is None else min(wake_ns, view.now_ns + delay_ns)

    def _serve_ns(self, bound: Sequence[JobView], here: Sequence[JobView], danger: Danger) -> dict[str, int]:
        """When the waiting samples of each job with a deadline are to be served."""
        if not bound:
            return {}
        slack = Slack(self.spare, self.lead, ops_of_others_ns([job for job in here if job.deadline_ns is None]))
        return {job.name: min(slack.serve_at_ns(job), danger.at_ns) for job in bound}

    def _room_beside(self, used: float, own: float) -> bool:
        return used + own <= self.width or (1 - own) / (1 + used) >= self.gain

    def _apart(self, job: JobView, beside: Sequence[JobView], free_bytes: int) -> bool:
        """Whether their peaks do not fit together."""
        return sum([each.profile.ephemeral_bytes for each in (job, *beside)]) > free_bytes

    def _pays_beside_one(self, job: JobView, beside: Sequence[JobView], free_bytes: int) -> bool:
        beside = [other for other in beside if other.deadline_ns is None]
        if len(beside) != 1:
            return True
        other = beside[0]
        if self._apart(job, beside, free_bytes):
            return True  # memory keeps them apart, so their slowdown may not come from the other's work
        first_in_step = job.iterations_done == 0 and _in_step(job, other)
        return not first_in_step and not self._hurts(job, other)

    def _hurts(self, job: JobView, other: JobView) -> bool:
        mine, its = job.beside.get(other.name), other.beside.get(job.name)
        if mine is None or its is None or job.iterations_done % self.try_again == 0:
            return False
        return 1 / mine + 1 / its < self.worth_sharing


def _in_step(job: JobView, other: JobView) -> bool:
    """Whether the other job runs the same network and is in its forward pass: both passes would run at once."""
    mine, its = job.profile, other.profile
    return mine.name == its.name and mine.solo_ns == its.solo_ns and other.position_ns < its.forward_ns


def _apart_by_deadline(jobs: Sequence[JobView]) -> tuple[list[JobView], list[JobView]]:
    """The jobs with a deadline, and the others."""
    return [job for job in jobs if job.deadline_ns is not None], [job for job in jobs if job.deadline_ns is None]
