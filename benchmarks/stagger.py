"""Delays before iterations, stalls inside them and evictions, beside throughput, for policies under a budget.

A delay is an iteration that the policy does not start when the job's last one ends. A stall is an iteration that waits
for memory after it has begun.

`python -m benchmarks.stagger 0` runs one of the sets, in about 3 minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks._live import Load, together

from neaptide.reporting.terminal.bench import Figure, figure_line

POLICIES = ("temporal", "ticktock", "zico", "neaptide")
SECONDS = 5.0
ROUNDS = 4
# Zico's example is NASNet with ResNet-110 under 11 GB, which is 0.78 of the sum of their peaks at the batches of
# `reproduce zico`. Here both are the zoo's small ones, and the budget is the same share of their peaks.
EXAMPLE = (Load("nasnet-mobile", 64, 1), Load("resnet110", 64, 1))
EXAMPLE_SHARE = 0.78
SHARE = 0.65
GPT = Load("GPT-2", 16, 1)
SETS: dict[str, tuple[tuple[Load, ...], float]] = {
    "NASNet and ResNet-110": (EXAMPLE, EXAMPLE_SHARE),
    "two GPT-2": ((GPT, GPT), SHARE),
    "ResNet-50 and GPT-2": ((Load("ResNet-50", 16, 1), GPT), SHARE),
}


def figures() -> Iterator[Figure]:
    """Each set of jobs, one after the other."""
    for name in SETS:
        yield from compare(name)


def compare(name: str) -> Iterator[Figure]:
    """The groups of one set take turns, so that a disturbance of the machine affects all of them."""
    loads, share = SETS[name]
    with ExitStack() as stack:
        with together(loads, "spatial", None) as free:
            budget_bytes = round(share * sum(free.needs_bytes))
        groups = {policy: stack.enter_context(together(loads, policy, budget_bytes)) for policy in POLICIES}
        done = {policy: [0.0] * len(loads) for policy in POLICIES}
        for _ in range(ROUNDS):
            for policy, group in groups.items():
                rates = group.counted(SECONDS)
                done[policy] = [before + more for before, more in zip(done[policy], rates, strict=True)]
        for policy, group in groups.items():
            title = f"{name}, {policy}"
            yield Figure(f"{title}: throughput against temporal", _against(done["temporal"], done[policy]), "x")
            yield from group.waits.figures(title)
            high = group.high_water_bytes / budget_bytes
            yield Figure(f"{title}: highest held of the budget", high, "x", "<= 1")


def _against(base: Sequence[float], done: Sequence[float]) -> float:
    if not all(base):
        raise RuntimeError("a job did no iteration under temporal; the machine is too busy for this benchmark")
    return sum(each / before for each, before in zip(done, base, strict=True)) / len(base)


def one_set() -> None:
    """One set, printed as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stagger", description="Run one set of jobs.")
    names = "; ".join(f"{number}: {name}" for number, name in enumerate(SETS))
    parser.add_argument("number", type=int, choices=range(len(SETS)), help=names)
    for figure in compare(list(SETS)[parser.parse_args().number]):
        print(figure_line(figure), flush=True)


if __name__ == "__main__":
    one_set()
