"""Memory that is kept ready for the next requests of jobs with a deadline: a lane of the board, which nobody else uses.

Without it a request may have to wait for memory until an iteration of another job gives some back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neaptide.core.control.actions import Action, MoveLane, SizeLane
from neaptide.core.control.job import RUNNING
from neaptide.core.control.view import JobView

_LANE = 0


def keep_ready(here: Sequence[JobView], budget_bytes: int, lanes: Mapping[int, int]) -> list[Action]:
    """Puts the jobs with a deadline into a lane of what their requests need; into none if others could not run then."""
    bound = [job for job in here if job.deadline_ns is not None]
    if not bound and not lanes:
        return []
    others = [job for job in here if job.deadline_ns is None] if bound else []
    wanted = _ready_bytes(bound, others, budget_bytes)
    lane = _LANE if wanted else None
    between = [job for job in bound if job.state is not RUNNING]  # lanes change between iterations
    moves: list[Action] = [MoveLane(job.name, lane) for job in between if job.lane != lane]
    size: list[Action] = [SizeLane(_LANE, wanted)] if lanes.get(_LANE, 0) != wanted else []
    return [*size, *moves]


def _ready_bytes(bound: Sequence[JobView], others: Sequence[JobView], budget_bytes: int) -> int:
    if not others:
        return 0
    at_rest_bytes = sum([job.profile.persistent_bytes for job in (*bound, *others)])
    largest_bytes = max([job.profile.ephemeral_bytes for job in others])
    wanted = sum([job.profile.ephemeral_bytes for job in bound])
    return wanted if at_rest_bytes + largest_bytes + wanted <= budget_bytes else 0
