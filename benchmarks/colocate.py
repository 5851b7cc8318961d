"""The throughput of jobs that share a device: against turns, against unlimited memory, and one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median

from benchmarks._live import Load, in_turn, together
from benchmarks._wall_time import one_after_the_other, under_neaptide

from neaptide.reporting.terminal.bench import Figure

SHARE = 0.65  # the budget, as a share of the sum of the jobs' peaks
SECONDS = 4.0
LEARNING_SECONDS = 8.0  # a job whose iterations differ reaches its largest in this time
ROUNDS = 4
WALL_SECONDS = 20.0  # about as long as each job takes, when wall times are compared
# At these sizes each job alone fits the budget, and a chunk of 2 MiB is a small part of it.
NARROW_GPT, NARROW_BERT, NARROW_RESNET = Load("GPT-2", 48, 1), Load("BERT", 40, 1), Load("ResNet-50", 48, 1)
VARIED_GPT = Load("GPT-2", 48, 1, varies=True)
FULL_GPT, FULL_RESNET = Load("GPT-2", 48, None), Load("ResNet-50", 48, None)
SETS = {
    "two GPT-2, do not fill the device": (NARROW_GPT, NARROW_GPT),
    "BERT and GPT-2, do not fill the device": (NARROW_BERT, NARROW_GPT),
    "ResNet-50 and GPT-2, do not fill the device": (NARROW_RESNET, NARROW_GPT),
    "ResNet-50, BERT and GPT-2, do not fill the device": (NARROW_RESNET, NARROW_BERT, NARROW_GPT),
    "two GPT-2 with batches of many sizes, do not fill the device": (VARIED_GPT, VARIED_GPT),
    "two GPT-2, fill the device": (FULL_GPT, FULL_GPT),
    "ResNet-50 and GPT-2, fill the device": (FULL_RESNET, FULL_GPT),
}


def figures() -> Iterator[Figure]:
    """Three groups of jobs are measured in turns: with unlimited memory, under temporal, and under neaptide.

    Then the same jobs are run to an end, one after the other without neaptide, and under neaptide.
    """
    for name, loads in SETS.items():
        with ExitStack() as stack:
            varied = any(load.varies for load in loads)
            # Under `spatial` a job that needs more memory than was measured fails.
            free = stack.enter_context(together(loads, "neaptide" if varied else "spatial", None))
            if varied:
                free.rates(LEARNING_SECONDS)
            budget_bytes = round(SHARE * sum(free.needs_bytes))
            turns, shared = (
                stack.enter_context(together(loads, each, budget_bytes)) for each in ("temporal", "neaptide")
            )
            if varied:
                for group in (turns, shared):
                    group.rates(LEARNING_SECONDS)
            rounds = [in_turn((free, turns, shared), SECONDS, index) for index in range(ROUNDS)]
            area = sum(trace.curve().area / trace.curve().duration_ns for trace in shared.traces()) / budget_bytes
            high = max(turns.high_water_bytes, shared.high_water_bytes)
        yield Figure(f"{name}: what the jobs hold on average at full speed, of the budget", area, "x")
        # Each job's rate is relative to its own, so that jobs of different lengths can be averaged.
        in_turns = median(_against(rates[0], rates[1]) for rates in rounds)
        yield Figure(f"{name}: temporal against unlimited memory", in_turns, "x")
        share = median(_against(rates[0], rates[2]) for rates in rounds)
        yield Figure(f"{name}: neaptide against unlimited memory", share, "x", ">= 0.95")
        # Not job by job: within the seconds of a round, a job may have had no turn.
        yield Figure(f"{name}: neaptide against temporal", share / in_turns, "x", ">= 1")
        yield Figure(f"{name}: highest held of the budget", high / budget_bytes, "x", "<= 1")
        iterations = [max(round(WALL_SECONDS * rate), 8) for rate in rounds[0][0]]
        alone = one_after_the_other(loads, iterations, budget_bytes)
        yield Figure(f"{name}: one after the other, without neaptide, wall time", alone, "s")
        together_seconds = under_neaptide(loads, iterations, budget_bytes)
        yield Figure(f"{name}: the same under neaptide, wall time", together_seconds, "s")
        gain = alone / together_seconds
        yield Figure(f"{name}: neaptide against one after the other, in wall time", gain, "x")


def _against(base: Sequence[float], rates: Sequence[float]) -> float:
    return sum(rate / before for rate, before in zip(rates, base, strict=True)) / len(base)
