"""How much time an inference job with an SLO has to spare, and what follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.job import JobState
from neaptide.core.control.view import JobView

NEVER = 2**62


@dataclass(frozen=True)
class Slack:
    """When a job with a deadline must be served, and when nobody may get in its way any more.

    Before the deadline some time is kept free: as long as the ops of other jobs may last that have begun when the gates
    close (`others_ns`: nobody interrupts an op), and `spare` of the deadline for what cannot be foreseen.
    """

    spare: float
    lead: float = 1.0
    others_ns: int = 0

    def serve_at_ns(self, job: JobView) -> int:
        """When its waiting samples are to be started: now if they fill a batch, else as late as is safe.

        Safe is to keep out of the spare time if the iteration takes `lead` times as long as the last one, or as alone.
        """
        if not job.requests:
            return NEVER
        if len(job.requests) >= job.profile.batch:
            return 0
        return job.requests[0] + self._allowed_ns(job) - int(self.lead * max(job.profile.solo_ns, job.recent_ns))

    def urgent_at_ns(self, job: JobView) -> int:
        """When its samples come into the spare time if the device does nothing for them until then.

        From then on they need all of the device. Samples that wait behind a running batch count with it.
        """
        need_ns = job.profile.solo_ns - job.position_ns if job.state is JobState.RUNNING else 0
        at_ns = job.serving[0] + self._allowed_ns(job) - need_ns if job.serving else NEVER
        if job.requests:
            at_ns = min(at_ns, job.requests[0] + self._allowed_ns(job) - need_ns - job.profile.solo_ns)
        return at_ns

    def _allowed_ns(self, job: JobView) -> int:
        assert job.deadline_ns is not None, f"{job.name} has no deadline"
        return round(job.deadline_ns * (1 - self.spare)) - self.others_ns


def ops_in_the_way_ns(others: Sequence[JobView]) -> int:
    """How long the ops that others have on the device may last: side by side they slow each other down."""
    running = sum(job.profile.longest_ns for job in others if job.state is JobState.RUNNING)
    return max([running, *(job.profile.longest_ns for job in others)])
