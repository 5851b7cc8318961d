"""Functions of the public face that join several rooms; `neaptide` exports them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neaptide.core.control.job import Job
from neaptide.core.control.policy import Policy
from neaptide.core.device import DeviceSpec, find_device
from neaptide.core.units import parse_bytes
from neaptide.devices import default_kind
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_file
from neaptide.live.runs.launching import JobCommand
from neaptide.live.runs.run_jobs import RunRecord
from neaptide.live.runs.run_jobs import run_jobs as run_under_daemon
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.run_folder import check_output_folder, folder_for_run, save_run
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


def run_jobs(
    jobs: Sequence[JobCommand],
    folder: str | Path,
    *,
    budget: str | int | None = None,
    policy: str | None = None,
) -> RunRecord:
    """Run commands as jobs that share the device, until all have ended, as `neaptide run jobs.toml` does.

    The jobs' output and the log of the run are written to `folder`. A daemon that runs already is used if it has this
    budget and policy; otherwise ValueError. If none runs, one is started for the run and ends with it.
    """
    if not jobs:
        raise ValueError("there is no job to run")
    settings = default_kind().settings_type()  # refuses a device that cannot be shared before anything starts
    where = Path(folder)
    budget_bytes = parse_bytes(budget) if isinstance(budget, str) else budget
    if policy is not None:
        find_policy(policy)  # reports a faulty policy before a folder is made
    check_output_folder(where)
    with daemon_for_file(DaemonRequest(policy=policy, budget_bytes=budget_bytes)) as paths:
        with folder_for_run(where, where.name):
            record = run_under_daemon(jobs, settings, paths, where, lambda *_: None, lambda _: None)
        save_run(where, where.name, record, paths)
    return record
