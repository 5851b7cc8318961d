"""Which of a job's plans gives the device the highest throughput: less memory lets more jobs run at once, but the job
itself takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from neaptide.core.control.view import JobView
from neaptide.core.rules.admission import spare_bytes
from neaptide.core.traces.profile import Profile
from neaptide.policies.parts.stagger import capped_curve

# Another plan must promise this much more, so that a job does not switch back and forth with every small change.
WORTH_A_CHANGE = 1.05


@lru_cache(maxsize=4096)
def time_together(first: Profile, second: Profile, free_bytes: int, in_flight: int) -> float:
    """The share of time in which two iterations fit together, if each is at a random point of its curve."""
    one, other = capped_curve(first, in_flight), capped_curve(second, in_flight)
    fits = np.add.outer(one.bytes, other.bytes) <= free_bytes
    return float(np.diff(one.edges_ns / one.duration_ns) @ fits @ np.diff(other.edges_ns / other.duration_ns))


def throughput(profiles: Sequence[Profile], budget_bytes: int, in_flight: int) -> float:
    """The expected throughput of the device with these jobs, as a multiple of one job at a time.

    For the share of time in which the jobs fit together, each runs at full speed up to the device's capacity; for the
    rest they take turns.
    """
    if len(profiles) == 1:
        return 1.0
    free_bytes = budget_bytes - sum(profile.persistent_bytes for profile in profiles)
    pairs = list(combinations(profiles, 2))
    together = sum(time_together(first, second, free_bytes, in_flight) for first, second in pairs) / len(pairs)
    return 1 + together * (len(profiles) / max(1.0, sum(profile.utilisation for profile in profiles)) - 1)


def best_plan(job: JobView, others: Sequence[Profile], budget_bytes: int, in_flight: int) -> int | None:
    """The plan with the highest throughput, less the time that it costs the job, among those that fit.

    The present plan stays unless another is better by WORTH_A_CHANGE. None if no plan fits.
    """
    fitting = [plan for plan, profile in enumerate(job.plans) if spare_bytes([*others, profile], budget_bytes) >= 0]
    if len(fitting) < 2:
        return fitting[0] if fitting else None

    def worth(plan: int) -> float:
        slower = job.plans[plan].solo_ns / job.plans[0].solo_ns
        mine = 1 / (len(others) + 1)
        return throughput([*others, job.plans[plan]], budget_bytes, in_flight) * (1 - mine + mine / slower)

    worths = {plan: worth(plan) for plan in fitting}
    best = max(fitting, key=lambda plan: (worths[plan], -plan))
    stay = job.plan in worths and worths[best] < WORTH_A_CHANGE * worths[job.plan]
    return job.plan if stay else best
