"""Shares of the device's SMs: the changes that bring every job to its share."""

from __future__ import annotations

from collections.abc import Iterable

from neaptide.core.control.actions import Action, SetShare
from neaptide.core.control.view import JobView

_CLOSE = 1e-6  # shares are kept in millionths


def share_out(wanted: Iterable[tuple[JobView, float]]) -> list[Action]:
    """Sets the shares of jobs on the device, or coming to it, that differ from what is wanted; 1 is all of it."""
    return [
        SetShare(job.name, None if share >= 1 else share)
        for job, share in wanted
        if abs((1.0 if job.share is None else job.share) - share) > _CLOSE
    ]
