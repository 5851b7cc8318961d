"""How far a job may run ahead of what the policy has started."""

from __future__ import annotations


def permits_ahead(jobs: int, trains: bool) -> int | None:
    """How many iterations beyond those started by the policy the job may begin; None: without bound.

    `jobs` counts the jobs on the device, the job itself included. A training job that is alone holds up no
    other job, so it does not wait for permits: the engine counts its iterations and reports them together. With a
    second job on the device the policy starts every iteration. An inference job's iterations belong to requests, so it
    never runs ahead.
    """
    return None if jobs == 1 and trains else 0
