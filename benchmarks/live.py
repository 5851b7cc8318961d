"""Real jobs against the same jobs in virtual time: what they take together, and the most they hold."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks._live import Load, run_to_the_end

from neaptide.core import events as ev
from neaptide.core.device import find_device
from neaptide.core.job import Job
from neaptide.core.log_format import Joined, decode_line
from neaptide.core.trace_format import decode
from neaptide.policies.files import find_policy
from neaptide.reporting.bench import Figure
from neaptide.simulation import Submission, simulate

POLICIES = ("temporal", "zico", "neaptide")
SHARE = 0.65  # the budget's, of the sum of peaks
ROUNDS = 2
# loads, and iterations of each
SETS = {
    "two narrow GPTs": ((Load("gpt2", "tiny", 32, 1), 80), (Load("gpt2", "tiny", 32, 1), 80)),
    "a narrow ResNet and a narrow GPT": ((Load("resnet18", "tiny", 320, 1), 60), (Load("gpt2", "tiny", 32, 1), 80)),
    "two ResNets that fill the device": (
        (Load("resnet18", "paper", 4, None), 25),
        (Load("resnet18", "paper", 4, None), 25),
    ),
}


def figures() -> Iterator[Figure]:
    """From when all jobs were measured to the end of the last; the simulator is given their measured traces."""
    device = find_device("soft")
    for title, jobs in SETS.items():
        for policy in POLICIES:
            spans, peaks = [], []
            for _ in range(ROUNDS):
                with tempfile.TemporaryDirectory(prefix="npt-") as name:
                    folder = Path(name)
                    run_to_the_end(jobs, policy, SHARE, folder)
                    seen = _Live(folder / "run")
                    submissions = [Submission(job) for job in seen.jobs]
                    outcome = simulate(submissions, device, seen.budget_bytes, find_policy(policy))
                    spans.append(seen.took_ns / outcome.end_ns)
                    peaks.append(seen.peak_bytes / outcome.peak_bytes)
            yield Figure(f"{title}, {policy}: live makespan off the simulated", _off(spans), "%", "<= 5")
            yield Figure(f"{title}, {policy}: live peak off the simulated", _off(peaks), "%", "<= 5")


def _off(ratios: Sequence[float]) -> float:
    return 100 * abs(median(ratios) - 1)


class _Live:
    """A daemon's log from when its last job had arrived."""

    def __init__(self, folder: Path) -> None:
        lines = [decode_line(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
        joined = {line.facts.name: line for line in lines if isinstance(line, Joined)}
        began_ns = max(line.at_ns for line in lines if isinstance(line, ev.JobArrived))
        ends = [line for line in lines if isinstance(line, ev.IterationEnded) and line.at_ns > began_ns]
        self.took_ns = max(line.at_ns for line in ends) - began_ns
        self.budget_bytes = int((folder / "budget").read_text())
        self.peak_bytes = int((folder / "high-water").read_text())
        self.jobs = [
            Job(
                name=each.facts.name,
                trace=decode((folder / "traces" / each.trace).read_bytes()),
                iterations=sum(line.job == each.facts.name for line in ends),
            )
            for each in joined.values()
        ]
