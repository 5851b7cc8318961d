"""Which of a job's plans serves all jobs best: less memory lets more run at once, and costs the job time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from neaptide.core.control.view import JobView
from neaptide.core.traces.profile import Profile
from neaptide.policies.parts.admission import room
from neaptide.policies.parts.stagger import tide_of

# Another plan must promise this much more, so that small changes around a job do not make it switch to and fro.
WORTH_A_CHANGE = 1.05


@lru_cache(maxsize=4096)
def time_together(first: Profile, second: Profile, free_bytes: int, in_flight: int) -> float:
    """The share of time that two iterations, each at any place in its curve, fit side by side."""
    one, other = tide_of(first, in_flight), tide_of(second, in_flight)
    fits = np.add.outer(one.bytes, other.bytes) <= free_bytes
    return float(np.diff(one.edges_ns / one.duration_ns) @ fits @ np.diff(other.edges_ns / other.duration_ns))


def throughput(profiles: Sequence[Profile], budget_bytes: int, in_flight: int) -> float:
    """What the device is expected to do with these jobs, as a multiple of what it does for one at a time.

    As many times as much as there are jobs while they do not fill it, and for the share of time that they fit together;
    by turns for the rest.
    """
    if len(profiles) == 1:
        return 1.0
    free_bytes = budget_bytes - sum(profile.persistent_bytes for profile in profiles)
    pairs = list(combinations(profiles, 2))
    together = sum(time_together(first, second, free_bytes, in_flight) for first, second in pairs) / len(pairs)
    return 1 + together * (len(profiles) / max(1.0, sum(profile.utilisation for profile in profiles)) - 1)


def best_plan(job: JobView, others: Sequence[Profile], budget_bytes: int, in_flight: int) -> int | None:
    """The plan with the highest throughput, less the time it costs the job, among those that may be beside the others.

    The present one stays unless another is better by more than a little. None if none may be there.
    """
    fitting = [plan for plan, profile in enumerate(job.plans) if room([*others, profile], budget_bytes) >= 0]
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
