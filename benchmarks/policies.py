"""The papers' policies on the sets of `colocate`: throughput, and delays, stalls and evictions per iteration.

Each policy takes turns with `temporal`, so that a disturbance of the machine affects both. A policy may leave a job
waiting for as long as the others run, as `mig` does with a job that is larger than an instance: then the job does no
iteration, and the least of all jobs is 0.

All sets take about an hour; `python -m benchmarks.policies --quick 0` tries one of three sets in about 4 minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from benchmarks._live import Load, together
from benchmarks.colocate import SETS, SHARE

from neaptide.reporting.terminal.bench import Figure, figure_line

POLICIES = ("zico", "salus-pack", "herald", "antman", "mps", "mig", "switchflow", "neaptide")
SECONDS = 4.0
ROUNDS = 3
QUICK = (
    "two GPT-2, do not fill the device",
    "ResNet-50 and GPT-2, do not fill the device",
    "ResNet-50 and GPT-2, fill the device",
)
QUICK_SECONDS, QUICK_ROUNDS = 3.0, 2


def figures() -> Iterator[Figure]:
    """Rates are relative to each job's own under `temporal`."""
    for name, loads in SETS.items():
        if any(load.varies for load in loads):
            continue  # what its largest iteration needs is not known at the beginning
        yield from compare(name, loads, SECONDS, ROUNDS)


def compare(name: str, loads: Sequence[Load], seconds: float, rounds: int) -> Iterator[Figure]:
    """Every policy on one set of jobs."""
    with together(loads, "temporal", None) as free:
        budget_bytes = round(SHARE * sum(free.needs_bytes))
    with together(loads, "temporal", budget_bytes) as turns:
        for policy in POLICIES:
            with together(loads, policy, budget_bytes, 0) as group:
                counts = [(turns.counted(seconds), group.counted(seconds)) for _ in range(rounds)]
                base, done = (list(map(sum, zip(*each, strict=True))) for each in zip(*counts, strict=True))
                if not all(base):
                    raise RuntimeError("a job did no iteration under temporal; the machine is too busy for this")
                against = [rate / before for before, rate in zip(base, done, strict=True)]
                title = f"{name}, {policy}"
                yield Figure(f"{title}: throughput against temporal", sum(against) / len(against), "x")
                yield Figure(f"{title}: of the job that gets least", min(against), "x")
                yield from group.waits.figures(title)
                high = group.high_water_bytes / budget_bytes
                yield Figure(f"{title}: highest held of the budget", high, "x", "<= 1")


def quick() -> None:
    """One set for a shorter time, printed as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", description="Try one set of jobs.")
    names = "; ".join(f"{number}: {name}" for number, name in enumerate(QUICK))
    parser.add_argument("--quick", type=int, choices=range(len(QUICK)), required=True, help=names)
    name = QUICK[parser.parse_args().quick]
    for figure in compare(name, SETS[name], QUICK_SECONDS, QUICK_ROUNDS):
        print(figure_line(figure), flush=True)


if __name__ == "__main__":
    quick()
