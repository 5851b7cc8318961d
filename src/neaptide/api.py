"""Functions of the public face that join several rooms; `neaptide` exports them."""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control.job import Job
from neaptide.core.control.policy import Policy
from neaptide.core.device import DeviceSpec, find_device
from neaptide.core.units import parse_bytes
from neaptide.policies.files import find_policy
from neaptide.simulation import Outcome, Submission
from neaptide.simulation import simulate as simulate_submissions


def simulate(
    jobs: Sequence[Job | Submission],
    budget: str | int,
    *,
    policy: str | Policy = "neaptide",
    device: str | DeviceSpec = "V100-16GB",
    until_seconds: float | None = None,
) -> Outcome:
    """Run jobs under a policy in virtual time, on a device of the catalogue.

    A `Job` arrives at the start; a `Submission` says when its job arrives, and when the requests of an inference job
    do. `policy` is a name, the path of a Python file, or a Policy. The run ends when every job with a number of
    iterations or requests has ended, or after `until_seconds`. Equal arguments give equal outcomes.
    """
    return simulate_submissions(
        [job if isinstance(job, Submission) else Submission(job) for job in jobs],
        find_device(device) if isinstance(device, str) else device,
        parse_bytes(budget) if isinstance(budget, str) else budget,
        find_policy(policy) if isinstance(policy, str) else policy,
        until_ns=None if until_seconds is None else round(until_seconds * 1e9),
    )
