"""What it costs to move a job to host memory or back."""

from __future__ import annotations

from neaptide.core.control.view import JobView

_LINK_BYTES_PER_NS = 10.0  # roughly the bandwidth of a device's link to the host
_WORTH = 20  # the time for which a job is moved must be this many times the time of copying its memory


def worth_a_copy_ns(job: JobView) -> float:
    """The least time for which moving the job is worth its cost."""
    return _WORTH * (job.profile.persistent_bytes / _LINK_BYTES_PER_NS)
