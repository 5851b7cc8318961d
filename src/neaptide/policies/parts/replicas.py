"""Two jobs of the same network need the same resources at the same time, so they run best half an iteration apart.

This chooses between Wavelet's rule (MLSys'21: one forward pass after the other) and Zico's (start as early as memory
allows).
"""

from __future__ import annotations

from neaptide.core.control.view import JobView
from neaptide.policies.parts.stagger import capped_curve

# A forward pass that uses less than this share of what the rest of the iteration uses is the better neighbour. Of the
# networks tried at several batch sizes, those up to 0.64 gain by an early start, and those from 0.66 on lose.
MUCH_EMPTIER = 0.65


def in_step(job: JobView, other: JobView) -> bool:
    """Whether the other job runs the same network and is in its forward pass: both passes would run at once."""
    mine, its = job.profile, other.profile
    return mine.name == its.name and mine.solo_ns == its.solo_ns and other.position_ns < its.forward_ns


def should_follow_forward(job: JobView, other: JobView, free_bytes: int, in_flight: int) -> bool:
    """Whether the job should start its iteration only after the other job's forward pass.

    An iteration that starts early soon waits for memory, until the other one has passed its peak. What it does before
    slows the other one down on its way to that peak, so it is better done beside the other's backward pass. Two
    exceptions: the forward pass leaves far more of the device free, or the iteration could do half of its own forward
    pass before it waits.
    """
    profile = job.profile
    if not in_step(job, other):
        return False
    if (profile.forward_utilisation or profile.utilisation) < MUCH_EMPTIER * profile.rest_utilisation:
        return False
    tide = capped_curve(profile, in_flight)
    too_high = (tide.bytes > free_bytes - other.profile.ephemeral_bytes).nonzero()[0]
    return too_high.size > 0 and int(tide.edges_ns[too_high[0]]) < profile.forward_ns / 2
