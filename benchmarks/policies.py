"""The papers' policies on the sets of `colocate`: throughput, and delays, stalls and evictions per iteration.

Each policy takes turns with `temporal`, so that a disturbance of the machine affects both. A policy may leave a job
waiting for as long as the others run, as `mig` does with a job that is larger than an instance: then the job does no
iteration, and the least of all jobs is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._live import together
from benchmarks.colocate import SETS, SHARE

from neaptide.reporting.terminal.bench import Figure

POLICIES = ("zico", "salus-pack", "herald", "antman", "mps", "mig", "switchflow", "neaptide")
SECONDS = 4.0
ROUNDS = 3


def figures() -> Iterator[Figure]:
    """Rates are relative to each job's own under `temporal`."""
    for name, loads in SETS.items():
        if any(load.varies for load in loads):
            continue  # what its largest iteration needs is not known at the beginning
        with together(loads, "temporal", None) as free:
            budget_bytes = round(SHARE * sum(free.needs_bytes))
        for policy in POLICIES:
            with together(loads, "temporal", budget_bytes) as turns, together(loads, policy, budget_bytes, 0) as group:
                rounds = [(turns.counted(SECONDS), group.counted(SECONDS)) for _ in range(ROUNDS)]
                base, done = (list(map(sum, zip(*each, strict=True))) for each in zip(*rounds, strict=True))
                if not all(base):
                    raise RuntimeError("a job did no iteration under temporal; the machine is too busy for this")
                against = [rate / before for before, rate in zip(base, done, strict=True)]
                title = f"{name}, {policy}"
                yield Figure(f"{title}: throughput against temporal", sum(against) / len(against), "x")
                yield Figure(f"{title}: of the job that gets least", min(against), "x")
                yield from group.waits.figures(title)
                high = group.high_water_bytes / budget_bytes
                yield Figure(f"{title}: highest held of the budget", high, "x", "<= 1")
