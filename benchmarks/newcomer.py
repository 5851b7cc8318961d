"""What new jobs cost the one that runs: how long that one stands still, and when the new ones have been measured."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._live import Load, arrival

from neaptide.reporting.terminal.bench import Figure

RUNS = Load("vae", 64, 1)  # iterations of some milliseconds
NEWCOMERS = {
    "vae comes": (Load("vae", 64, 1),),
    "resnet18 comes": (Load("resnet18", 32, 1),),
    # Their imports take the machine's cores for many seconds: an iteration is longer then, whatever neaptide does.
    "ten vae come": (Load("vae", 64, 1),) * 10,
}
SECONDS = 3.0


def figures() -> Iterator[Figure]:
    """One job runs, and others come."""
    for title, newcomers in NEWCOMERS.items():
        seen = arrival(RUNS, newcomers, "neaptide", SECONDS)
        yield Figure(f"{title}: measured after", seen.measuring_seconds, "s")
        yield Figure(f"{title}: usual time between iterations of the first job", seen.usual_seconds, "s")
        yield Figure(f"{title}: longest time between them", seen.longest_seconds, "s")
        yield Figure(f"{title}: evictions", seen.evictions, "", "<= 0")
