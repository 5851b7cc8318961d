"""Two training jobs that share a device: how much work they do per second under each policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.events import IterationEnded, JobStalled
from neaptide.core.control.job import Job
from neaptide.core.traces.profile import Profile
from neaptide.reporting.logs.comparison import SimulatedRun
from neaptide.reproductions.laboratory import Laboratory, policies
from neaptide.scenarios.compare import compare
from neaptide.simulation import Submission

# Zico's networks: for each its model, and the batch sizes to choose from.
LADDERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "NN": ("nasnet-mobile", (4, 8, 16, 24, 32, 48, 64, 96, 128)),
    "RN": ("resnet110", (16, 32, 64, 128, 256, 512)),
    "R50": ("resnet50", (2, 4, 8, 16, 32, 64)),
    "GT": ("gnmt", (8, 16, 24, 32, 40, 48, 64, 96, 128, 160)),
    "BT": ("bert-base", (4, 8, 12, 16, 24, 32)),
    "RH": ("rhn", (20, 64, 128, 256, 512)),
}
NOISE = 0.005  # two runs may differ by this share, because they end inside iterations
ROUNDS = 40  # a run is as long as this many iterations of each job in turns


@dataclass(frozen=True, slots=True)
class Member:
    """One job of a pair: a model at a batch size."""

    short: str
    model: str
    batch: int


@dataclass(frozen=True, slots=True)
class PairResult:
    """The work of a pair per unit of time. Work is device time alone, so taking turns gives 1."""

    members: tuple[Member, Member]
    utilisations: tuple[float, float]
    peaks_bytes: int  # the sum of both peaks
    budget_bytes: int
    progress: dict[str, tuple[float, float]]  # of each job, by policy
    stalls: dict[str, float]  # per iteration, by policy
    runs: Sequence[SimulatedRun]

    def of_alone(self, policy: str) -> tuple[float, float]:
        """What each job does in the whole run, of what it would do alone; needs the kept runs.

        Unlike `progress` it also counts the time in which a job is away.
        """
        (run,) = [run for run in self.runs if run.row.policy == policy]
        first, second = (record.work_ns / run.outcome.end_ns for record in run.row.metrics.jobs)
        return first, second

    def use(self, policy: str) -> float:
        """The share of the device's compute that both jobs use together; needs the kept runs."""
        return sum(work * share for work, share in zip(self.of_alone(policy), self.utilisations, strict=True))

    def throughput(self, policy: str) -> float:
        return sum(self.progress[policy]) / sum(self.progress["temporal"])

    @property
    def oversubscription(self) -> float:
        """The sum of both peaks over the memory."""
        return self.peaks_bytes / self.budget_bytes

    @property
    def name(self) -> str:
        return "-".join(
            f"{member.short}{round(100 * use)}" for member, use in zip(self.members, self.utilisations, strict=True)
        )


def find_member(laboratory: Laboratory, short: str, utilisation: int) -> Member:
    """One of Zico's networks at the batch size that comes nearest to a utilisation in per cent."""
    model, ladder = LADDERS[short]
    return Member(short, model, laboratory.batch_near(model, utilisation / 100, ladder))


def member_order(member: Member) -> tuple[int, int]:
    """The position of a member in tables: by network, then by batch."""
    return list(LADDERS).index(member.short), member.batch


def least_budget(first: Profile, second: Profile) -> int:
    """The memory in which two jobs can take turns."""
    persistent = first.persistent_bytes + second.persistent_bytes
    return persistent + max(first.ephemeral_bytes, second.ephemeral_bytes)


def half_way_budget(first: Profile, second: Profile, memory_bytes: int) -> int:
    """Half-way between the memory that turns need and the sum of peaks, but at most the device's memory."""
    low = min(first.ephemeral_bytes, second.ephemeral_bytes)
    return min(least_budget(first, second) + low // 2, memory_bytes)


def run_pair(
    laboratory: Laboratory,
    members: tuple[Member, Member],
    names: Sequence[str],
    *,
    budget_bytes: int | None = None,
    keep: bool = False,
    priorities: tuple[int, int] = (0, 0),
) -> PairResult:
    """Run a pair under policies; `keep` the runs if more of them will be shown."""
    first, second = (laboratory.profile(each.model, each.batch) for each in members)
    budget = budget_bytes or half_way_budget(first, second, laboratory.device.memory_bytes)
    models = [each.model for each in members]
    titles = models if models[0] != models[1] else [f"{models[0]}-1", f"{models[1]}-2"]
    submissions = [
        Submission(Job(name=title, trace=laboratory.trace(each.model, each.batch), priority=priority))
        for title, each, priority in zip(titles, members, priorities, strict=True)
    ]
    until_ns = ROUNDS * (first.solo_ns + second.solo_ns)
    runs = compare(submissions, laboratory.device, budget, policies(*names), until_ns=until_ns)
    return PairResult(
        members=members,
        utilisations=(first.utilisation, second.utilisation),
        peaks_bytes=first.peak_bytes + second.peak_bytes,
        budget_bytes=budget,
        progress={
            run.row.policy: (
                _progress(run, titles[0], first.solo_ns),
                _progress(run, titles[1], second.solo_ns),
            )
            for run in runs
        },
        stalls={run.row.policy: _stalls(run) for run in runs},
        runs=runs if keep else (),
    )


def _stalls(run: SimulatedRun) -> float:
    """How many of a run's iterations waited for memory after they had begun, as a share."""
    entries = run.outcome.entries
    iterations = sum(entry.iterations for entry in entries if isinstance(entry, IterationEnded))
    return sum(isinstance(entry, JobStalled) for entry in entries) / max(iterations, 1)


def _progress(run: SimulatedRun, job: str, solo_ns: int) -> float:
    """A job's work per unit of time between the ends of its first and its last iteration.

    A job that ended fewer than two iterations counts as having done one, so that no progress is zero.
    """
    entries = run.outcome.entries
    ends = [entry.at_ns for entry in entries if isinstance(entry, IterationEnded) and entry.job == job]
    if len(ends) < 2:
        return solo_ns / run.outcome.end_ns
    return (len(ends) - 1) * solo_ns / (ends[-1] - ends[0])
