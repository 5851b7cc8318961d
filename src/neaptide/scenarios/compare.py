"""Runs the same jobs under several policies in virtual time. Throughput is relative to the first policy."""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control.log_format import facts_of
from neaptide.core.control.policy import Policy
from neaptide.core.device import DeviceSpec
from neaptide.reporting.logs.comparison import Row, SimulatedRun
from neaptide.reporting.logs.metrics import metrics_of
from neaptide.reporting.terminal.failure import policy_failures
from neaptide.reporting.terminal.progress import OnProgress
from neaptide.simulation import Submission, simulate


def compare(
    submissions: Sequence[Submission],
    device: DeviceSpec,
    budget_bytes: int,
    policies: Sequence[Policy],
    *,
    budget_changes: Sequence[tuple[int, int]] = (),
    until_ns: int | None = None,
    in_flight: int | None = None,
    on_progress: OnProgress = lambda *_: None,
) -> list[SimulatedRun]:
    """Run the jobs once under each policy."""
    facts = facts_of(submission.job for submission in submissions)
    runs: list[SimulatedRun] = []
    for policy in policies:
        on_progress(len(runs), len(policies))
        with policy_failures(policy.name):
            outcome = simulate(
                submissions,
                device,
                budget_bytes,
                policy,
                budget_changes=budget_changes,
                until_ns=until_ns,
                in_flight=in_flight,
            )
        metrics = metrics_of(outcome.entries, facts, outcome.end_ns)
        against = runs[0].row.metrics.throughput if runs else metrics.throughput
        row = Row(policy.name, metrics, against, outcome.peak_bytes, outcome.over_budget_bytes)
        runs.append(SimulatedRun(outcome, row))
    return runs
