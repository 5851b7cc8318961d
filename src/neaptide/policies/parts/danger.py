"""When requests are in danger of missing their deadlines, so that other jobs must leave the device to them.

Requests are taken by earliest deadline, and each needs what requests of its job took lately. So a request that waits
behind others is in danger when all of them together leave it no time, and the gates of other jobs close then; or at its
arrival, if its slack does not cover what is on the device and its service. A gate that is open until that time also
holds an op that would end later. Some of each deadline is held in reserve for what is not foreseen; how much follows
the measured tail (core/rules/reserve.py). Other jobs leave the device to requests of a latency-critical job from their
arrival on, with their light ops, too: a request's heavy op waits for any op that is on the device.

No job is held for a request to which a free device is no help: one that waits for memory, one for which the program
does not call its model, or one whose iteration stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from neaptide.core.control.actions import Action, SetGate
from neaptide.core.control.job import READY, RUNNING
from neaptide.core.control.view import JobView
from neaptide.policies.parts.slack import NEVER, ops_of_others_ns

_MOST_REQUESTS = 64  # of one job are looked at: the oldest are in danger first
_PATIENCE_NS = 500_000_000  # beyond several times its need: an iteration that takes longer stands still
_PATIENCE = 4.0
_ANSWER_NS = 5_000_000
_HALF_OPEN = 8  # closed gates open if there is time for an eighth of a request: less is not worth two changes
_NOT_WORTH_NS = 1_000_000  # a gate is not set anew to stay open for so little longer


@dataclass(frozen=True)
class Danger:
    """The moment from which jobs with a deadline need the whole device, and until when it is left to them."""

    at_ns: int  # NEVER: no request is there
    helps_until_ns: int  # no job is held after this: look again then
    margin_ns: int  # closed gates open only if `at_ns` is further away than this
    holds_light: bool = False  # closed gates hold light ops, too

    @classmethod
    def of(cls, bound: Sequence[JobView], others: Sequence[JobView], lead: float, now_ns: int) -> Danger:
        """The danger for the `bound` jobs, which have a deadline, beside `others`; all of them are on the device."""
        untils_ns = [(_helps_until_ns(job, now_ns), job) for job in bound if not job.stalled]
        helped = [job for until_ns, job in untils_ns if now_ns < until_ns]
        claims = [(job.latency_critical, *claim) for job in helped for claim in _claims(job, now_ns)]
        if not claims:
            return NO_DANGER
        at_ns, need_ns = NEVER, 0.0
        for due_ns, needs_ns in sorted([(due_ns, needs_ns) for _, due_ns, needs_ns in claims]):
            need_ns += lead * needs_ns
            at_ns = min(at_ns, due_ns - round(need_ns))
        return cls(
            at_ns=at_ns - ops_of_others_ns(others),
            helps_until_ns=min([until_ns for until_ns, _ in untils_ns if now_ns < until_ns]),
            margin_ns=min([demand_ns(job) for job in helped]) // _HALF_OPEN,
            holds_light=any(critical for critical, _, _ in claims),
        )

    def gates(self, others: Sequence[JobView], now_ns: int) -> list[Action]:
        """The changes to the gates of other jobs."""
        at_ns, holds_light = self.at_ns, self.holds_light
        if at_ns == NEVER:
            shut = [job for job in others if not job.gate_open or job.gate_until_ns is not None]
            return [SetGate(job.name, open=True) for job in shut]
        changes: list[Action] = []
        for job in others:
            if at_ns <= now_ns + (0 if job.gate_open else self.margin_ns):
                if job.gate_open or job.gate_holds_light is not holds_light:
                    changes.append(SetGate(job.name, open=False, holds_light=holds_light))
            elif not (job.gate_open and _alike(job.gate_until_ns, at_ns, now_ns)):
                changes.append(SetGate(job.name, open=True, until_ns=at_ns))
        return changes

    def wake_ns(self, now_ns: int) -> int:
        """When to look again."""
        return self.at_ns if now_ns < self.at_ns < NEVER else self.helps_until_ns if self.at_ns < NEVER else NEVER


NO_DANGER = Danger(at_ns=NEVER, helps_until_ns=NEVER, margin_ns=0)


def demand_ns(job: JobView) -> int:
    """Device time that the job's next request may take alone."""
    return job.demand_ns or job.profile.solo_ns


def _claims(job: JobView, now_ns: int) -> Iterator[tuple[int, int]]:
    """For each request: when it is due, less the reserve, and the device time that it needs."""
    assert job.deadline_ns is not None, f"{job.name} has no deadline"
    allowed_ns = 0 if job.latency_critical else round(job.deadline_ns * (1 - job.reserve))
    if job.serving:
        left = 1 - job.position_ns / max(job.profile.solo_ns, 1) if job.state is RUNNING else 1.0
        yield job.serving[0] + allowed_ns, round(left * demand_ns(job))
    if _is_answering(job):
        yield job.answering[0] + allowed_ns, 0
    for index, arrived_ns in enumerate(islice(_waiting(job, now_ns), _MOST_REQUESTS)):
        yield arrived_ns + allowed_ns, demand_ns(job) if index % job.profile.batch == 0 else 0


def _waiting(job: JobView, now_ns: int) -> Sequence[int]:
    """Arrivals that no iteration serves. If the program has called its model for none, those of which it has known
    for longer than their deadline are left out.
    """
    assert job.deadline_ns is not None
    if job.requests or job.serving:
        return job.arrivals
    return [each for each, since_ns in _known(job) if now_ns < since_ns + job.deadline_ns]


def _known(job: JobView) -> Iterator[tuple[int, int]]:
    """Arrivals for which the program has yet to call its model, and since when each is known.

    The program may have read a request long after it reached the machine. It then has as much time for its call as for
    another request.
    """
    return zip(job.expected, job.expected_since or job.expected, strict=True)


def _helps_until_ns(job: JobView, now_ns: int) -> int:
    """Until when it helps the job that others leave it the device."""
    assert job.deadline_ns is not None
    if job.requests or job.serving:
        since_ns = job.started_ns if job.state is RUNNING else job.since_ns
        return since_ns + round(_PATIENCE * demand_ns(job)) + _PATIENCE_NS
    if coming := [since_ns for _, since_ns in _known(job) if now_ns < since_ns + job.deadline_ns]:
        return min(coming) + job.deadline_ns
    return job.since_ns + _ANSWER_NS if _is_answering(job) else NEVER


def _is_answering(job: JobView) -> bool:
    """Whether a latency-critical job has done a request's work on the device, and its program has yet to answer it.

    The program needs a core for that, or calls its model again. Other jobs wait for it, but only for a moment.
    """
    return job.latency_critical and bool(job.answering) and job.state is READY


def _alike(until_ns: int | None, wanted_ns: int, now_ns: int) -> bool:
    """Whether a gate that is open until `until_ns` may stay so, although it should be open until `wanted_ns`."""
    return until_ns is not None and now_ns < until_ns <= wanted_ns < until_ns + _NOT_WORTH_NS
