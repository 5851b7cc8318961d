"""What jobs that share a device under a budget reach together, against turns and against unlimited memory."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks._live import Load, watch

from neaptide.reporting.bench import Figure

# What a budget is of the sum of the jobs' peaks.
SHARE = 0.65
SECONDS = 8.0
ROUNDS = 2
NARROW_GPT = Load("gpt2", "tiny", 32, 1)
NARROW_RESNET = Load("resnet18", "tiny", 320, 1)  # so that no job alone needs more than the budget
NARROW_TRANSFORMER = Load("transformer", "tiny", 32, 1)
FULL_RESNET = Load("resnet18", "paper", 4, None)
FULL_TRANSFORMER = Load("transformer", "paper", 2, None)
SETS = {
    "identical, do not fill the device": (NARROW_GPT, NARROW_GPT),
    "different, do not fill the device": (NARROW_RESNET, NARROW_GPT),
    "three, do not fill the device": (NARROW_RESNET, NARROW_GPT, NARROW_TRANSFORMER),
    "identical, fill the device": (FULL_RESNET, FULL_RESNET),
    "different, fill the device": (FULL_RESNET, FULL_TRANSFORMER),
}


def figures() -> Iterator[Figure]:
    """Each job's rate counts against its own rate alone, so that jobs of different lengths can be added."""
    alone: dict[Load, float] = {}
    for name, loads in SETS.items():
        for load in loads:
            if load not in alone:
                alone[load] = watch([load], "neaptide", None, SECONDS).rates[0]
        rounds: list[dict[str, float]] = []
        high, violations, budget_bytes = 0, 0, 0
        for _ in range(ROUNDS):
            reached = {}
            free = watch(loads, "spatial", None, SECONDS)
            budget_bytes = round(SHARE * sum(free.needs_bytes))
            reached["unlimited"] = _progress(loads, free.rates, alone)
            for policy in ("temporal", "neaptide"):
                seen = watch(loads, policy, budget_bytes, SECONDS)
                reached[policy] = _progress(loads, seen.rates, alone)
                high = max(high, seen.high_water_bytes)
                violations += seen.high_water_bytes > budget_bytes
            rounds.append(reached)
        against = {key: median(each["neaptide"] / each[key] for each in rounds) for key in ("temporal", "unlimited")}
        yield Figure(f"{name}: neaptide against temporal", against["temporal"], "x", ">= 1")
        yield Figure(f"{name}: neaptide against unlimited memory", against["unlimited"], "x", ">= 0.95")
        yield Figure(f"{name}: highest held of the budget", high / budget_bytes, "x", "<= 1")
        yield Figure(f"{name}: runs over the budget", violations, "runs", "<= 0")


def _progress(loads: tuple[Load, ...], rates: list[float], alone: dict[Load, float]) -> float:
    return sum(rate / alone[load] for load, rate in zip(loads, rates, strict=True))
