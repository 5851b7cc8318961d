"""A server that has been idle for long makes way for a job with work that finds no room on the device.

Whether it is long idle depends on the server and the time only, not on who waits, so no two jobs change places again
and again: a job with work comes before a server that is long idle, and the server comes back only for a request.

Nothing happens while all servers are idle, so a policy has itself asked again (`asked_again`): when the next server
will be long idle, and only while a job with work waits. That time is in the future, and comes once in each idle time.
"""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control.actions import Action, Admit, Resume, WakeAt
from neaptide.core.control.job import READY
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import expects_work, fits_without


def long_idle_servers(view: View) -> list[JobView]:
    """The servers on the device that make way for any job with work."""
    return [job for job in view.idle_servers if long_idle(job, view.now_ns)]


def long_idle(job: JobView, now_ns: int) -> bool:
    """Whether the job is a server on the device that makes way for any job with work."""
    return job.state is READY and not expects_work(job) and now_ns >= _long_idle_ns(job)


def make_way(view: View) -> tuple[JobView, list[JobView]] | None:
    """The job with work that has waited longest of those which the departure of idle servers helps, and the fewest of
    these servers, longest idle first; None if there is no such job.
    """
    idle = sorted(long_idle_servers(view), key=lambda job: job.since_ns)
    for job in sorted(_with_work_away(view), key=lambda job: job.since_ns) if idle else ():
        for leaving in range(len(idle) + 1):
            if fits_without(idle[:leaving], job, view):
                if leaving:
                    return job, idle[:leaving]
                break  # it fits as it is, and the policy's own rule admits it
    return None


def asked_again(actions: Sequence[Action], view: View) -> list[Action]:
    """The actions, and a WakeAt for when the next server will be long idle, if a job with work waits for room."""
    if not view.away or not view.idle_servers:
        return list(actions)
    brought = {action.job for action in actions if isinstance(action, (Admit, Resume))}
    if all(job.name in brought for job in _with_work_away(view)):
        return list(actions)
    idle_ns = [_long_idle_ns(job) for job in view.idle_servers if not long_idle(job, view.now_ns)]
    wakes_ns = [action.at_ns for action in actions if isinstance(action, WakeAt)]
    rest = [action for action in actions if not isinstance(action, WakeAt)]
    wake_ns = min([*wakes_ns, *idle_ns], default=None)
    return rest if wake_ns is None else [*rest, WakeAt(wake_ns)]


def _with_work_away(view: View) -> list[JobView]:
    away = [job for job in view.away if expects_work(job)]
    return [job for job in away if job.profile.peak_bytes <= view.budget_bytes]


def _long_idle_ns(job: JobView) -> int:
    """When an idle server will be long idle. One with a deadline stays for a turn: it would miss it by the move."""
    return job.since_ns + int(job.idle_ns if job.deadline_ns is None else job.turn_ns) + 1
