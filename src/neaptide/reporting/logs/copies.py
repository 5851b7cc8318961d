"""Copies of one job, which tables and legends show together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from neaptide.core.control.log_format import JobFacts


def group_copies(jobs: Sequence[JobFacts]) -> list[list[int]]:
    """The positions of jobs with equal iterations, a group per kind of job, in the order of the groups' first jobs."""
    groups: dict[object, list[int]] = {}
    for position, job in enumerate(jobs):
        memory = (job.framework_bytes, job.persistent_bytes, job.peak_bytes)
        same = (job.kind, job.solo_ns, job.batch, memory, job.deadline_ns)
        groups.setdefault(same, []).append(position)
    return list(groups.values())


def common_name(names: Sequence[str]) -> str:
    """One name for all copies, with their number."""
    if len(names) == 1:
        return names[0]
    same = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    prefix = re.sub(r"[-_ ]\d*$", "", names[0][:same]) or f"{names[0]} and others"
    return f"{len(names)} x {prefix}"
