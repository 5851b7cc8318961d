"""Two jobs of the same network want the same things at the same time, and are best kept half an iteration apart.

Wavelet's rule (MLSys'21), one forward pass after the other, against Zico's, to start as early as memory allows.
"""

from __future__ import annotations

from neaptide.core.control.view import JobView
from neaptide.policies.parts.stagger import tide_of

# A forward pass that asks for less of the device than this share of what the rest asks for is the better neighbour.
# Of the networks tried at several batch sizes, those up to 0.64 gain by an early start, those from 0.66 on lose.
MUCH_EMPTIER = 0.65


def in_step(job: JobView, other: JobView) -> bool:
    """Whether the other one is of the same network and in its forward pass: both would go through it at once."""
    mine, its = job.profile, other.profile
    return mine.name == its.name and mine.solo_ns == its.solo_ns and other.position_ns < its.forward_ns


def better_after_forward(job: JobView, other: JobView, free_bytes: int, in_flight: int) -> bool:
    """Whether an iteration that must wait for memory on its way had better start when the other's forward pass is over.

    What it does before it must wait is done in either case, and slows the other one down on its way to its peak, for
    which it then waits. So it is better done beside the backward pass, unless the forward pass leaves far more of the
    device free, or the iteration would get through half of its own forward pass before it must wait.
    """
    profile = job.profile
    if not in_step(job, other):
        return False
    if (profile.forward_utilisation or profile.utilisation) < MUCH_EMPTIER * profile.rest_utilisation:
        return False
    tide = tide_of(profile, in_flight)
    too_high = (tide.bytes > free_bytes - other.profile.ephemeral_bytes).nonzero()[0]
    return too_high.size > 0 and int(tide.edges_ns[too_high[0]]) < profile.forward_ns / 2
