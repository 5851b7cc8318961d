"""How long the samples of an inference job with an SLO may wait for a full batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.job import RUNNING
from neaptide.core.control.view import JobView

NEVER = 2**62


@dataclass(frozen=True)
class Slack:
    """When a job with a deadline must be served.

    Some time before the deadline is reserved: `others_ns` for ops of other jobs that are on the device when the gates
    close (an op cannot be interrupted), and the share `spare` of the deadline for surprises.
    """

    spare: float
    lead: float = 1.0
    others_ns: int = 0

    def serve_at_ns(self, job: JobView) -> int:
        """When to start the job's waiting samples: now if they fill a batch, else as late as is safe.

        It is safe if the batch ends before the reserved time although it takes `lead` times as long as the last one, or
        as alone.
        """
        if not job.requests:
            return NEVER
        if len(job.requests) >= job.profile.batch:
            return 0
        return job.requests[0] + self._allowed_ns(job) - int(self.lead * max(job.profile.solo_ns, job.recent_ns))

    def _allowed_ns(self, job: JobView) -> int:
        assert job.deadline_ns is not None, f"{job.name} has no deadline"
        return round(job.deadline_ns * (1 - self.spare)) - self.others_ns


def ops_of_others_ns(others: Sequence[JobView]) -> int:
    """How long the ops of other jobs on the device may last; concurrent ops slow each other down."""
    running = sum([job.profile.longest_ns for job in others if job.state is RUNNING])
    return max([running, *[job.profile.longest_ns for job in others]])
