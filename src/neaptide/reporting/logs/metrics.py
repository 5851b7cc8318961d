"""The metrics of a run, from its event log and a few facts about its jobs. docs/metrics.md defines every metric.

Pure functions: the same log gives the same numbers, whichever engine wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from neaptide.core.control.controller import Entry, Refused
from neaptide.core.control.events import BudgetChanged
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import JobFacts
from neaptide.reporting.logs.records import JobRecord, read_log

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of a run. Completion, queueing and fairness count training jobs; requests count inference jobs."""

    jobs: tuple[JobRecord, ...]
    refused: int  # actions that the ledger refused
    budget_changes: int = 0

    @property
    def _training(self) -> list[JobRecord]:
        return [each for each in self.jobs if each.job.kind is JobKind.TRAINING and each.arrived_ns is not None]

    @property
    def finite(self) -> list[JobRecord]:
        """The training jobs that have a number of iterations and so end by themselves."""
        return [each for each in self.jobs if each.job.iterations is not None]

    @property
    def finished(self) -> tuple[int, int]:
        """How many of the finite jobs are done, and how many finite jobs there are."""
        return sum(each.done for each in self.finite), len(self.finite)

    @property
    def _begin_ns(self) -> int:
        return min((each.arrived_ns for each in self.jobs if each.arrived_ns is not None), default=0)

    @property
    def makespan_ns(self) -> int | None:
        """From the first arrival to the end of the last training job; None unless all finite jobs are done."""
        ends = [each.ended_ns for each in self.finite if each.done and each.ended_ns is not None]
        return max(ends) - self._begin_ns if ends and len(ends) == len(self.finite) else None

    @property
    def throughput(self) -> float:
        """Work done per unit of time; work is the device time that the iterations take alone."""
        end_ns = max((each.present_ns + (each.arrived_ns or 0) for each in self.jobs), default=0)
        span_ns = end_ns - self._begin_ns
        return sum(each.work_ns for each in self.jobs) / span_ns if span_ns > 0 else 0.0

    @property
    def completions_ns(self) -> list[int]:
        """Completion times of the training jobs that are done."""
        return [each.completion_ns for each in self._training if each.completion_ns is not None]

    @property
    def completion_ns(self) -> float | None:
        return mean(self.completions_ns)

    @property
    def completion_p95_ns(self) -> int | None:
        return percentile(self.completions_ns, 95)

    @property
    def queueing_ns(self) -> float | None:
        return mean([each.queueing_ns for each in self._training])

    @property
    def slowdown(self) -> float | None:
        return mean([each.slowdown for each in self._training])

    @property
    def fairness(self) -> float | None:
        """Jain's index over the slowdowns of training jobs; None with fewer than two."""
        slowdowns = [each.slowdown for each in self._training]
        return jain(slowdowns) if len(slowdowns) > 1 else None

    @property
    def attainment(self) -> float | None:
        """The share of due requests that were answered in time; None if no job has an SLO."""
        due = sum(each.due for each in self.jobs)
        return sum(each.in_time for each in self.jobs) / due if due else None

    @property
    def latency_p99_ns(self) -> int | None:
        return percentile([latency for each in self.jobs for latency in each.latencies_ns], 99)

    @property
    def stalls(self) -> int:
        return sum(each.stalls for each in self.jobs)

    @property
    def evictions(self) -> int:
        return sum(each.evictions for each in self.jobs)


def metrics_of(entries: Sequence[Entry], jobs: Sequence[JobFacts], end_ns: int) -> Metrics:
    """The metrics of a log that ended at `end_ns`."""
    records = read_log(entries, jobs, end_ns)
    refused = sum(isinstance(entry, Refused) for entry in entries)
    changes = sum(isinstance(entry, BudgetChanged) for entry in entries)
    return Metrics(tuple(records.values()), refused, changes)


def mean(values: Sequence[float]) -> float | None:
    """The average; None if there are no values."""
    return sum(values) / len(values) if values else None


def percentile(values: Sequence[Number], percent: int) -> Number | None:
    """The smallest value that at least `percent` per cent of all values do not exceed."""
    if not values:
        return None
    return sorted(values)[max(-(-len(values) * percent // 100), 1) - 1]


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all values are equal, 1/n if one value has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
