"""Real jobs against the same jobs in virtual time: their makespan, and the most that they hold.

The machine's speed changes by tens of per cent within minutes. So three settings take turns: jobs alone, together with
unlimited memory, and together under a budget. The simulator's traces are scaled to the time of an iteration alone in
the same minutes, and to the bytes that it leases. The speed that a job keeps beside others is measured with unlimited
memory. So the comparison tests the effect of the budget and the policy.

All policies take about a quarter of an hour; `python -m benchmarks.live --quick zico` tries some in two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

import numpy as np
from benchmarks._live import Load, Together, Waits, in_turn, together
from benchmarks.colocate import FULL_GPT, NARROW_GPT, NARROW_RESNET
from benchmarks.policies import POLICIES

from neaptide.core.control.job import Job
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.policies.files import find_policy
from neaptide.reporting.terminal.bench import Figure, figure_line
from neaptide.simulation import Contention, Outcome, Submission, simulate

AT_ONCE = 5  # policies that take turns: each has its own jobs, in the machine's memory
SHARE = 0.65  # the budget, as a share of the sum of peaks
SECONDS = 3.0
ROUNDS = 3
SPAN_SECONDS = 60.0
SETS = {
    "two narrow GPT-2": (NARROW_GPT, NARROW_GPT),
    "a narrow ResNet-50 and a narrow GPT-2": (NARROW_RESNET, NARROW_GPT),
    "two GPT-2 that fill the device": (FULL_GPT, FULL_GPT),
}


def figures() -> Iterator[Figure]:
    """Medians of all rounds. A job does as many iterations as it does in a minute beside the others."""
    for title, loads in SETS.items():
        yield from compare(title, loads, ("temporal", *POLICIES), ROUNDS)


def compare(title: str, loads: Sequence[Load], policies: Sequence[str], rounds: int) -> Iterator[Figure]:
    """One set of jobs under some policies, a few of them at a time."""
    with ExitStack() as stack:
        alone = {load: stack.enter_context(together([load], "neaptide", None)) for load in dict.fromkeys(loads)}
        free = stack.enter_context(together(loads, "spatial", None))
        budget_bytes = round(SHARE * sum(free.needs_bytes))
        for first in range(0, len(policies), AT_ONCE):
            with ExitStack() as running:
                shared = {
                    policy: running.enter_context(together(loads, policy, budget_bytes, 0))
                    for policy in policies[first : first + AT_ONCE]
                }
                yield from _compare(title, loads, alone, free, shared, budget_bytes, rounds)


def _compare(
    title: str,
    loads: Sequence[Load],
    alone: Mapping[Load, Together],
    free: Together,
    shared: Mapping[str, Together],
    budget_bytes: int,
    count: int,
) -> Iterator[Figure]:
    rounds = [in_turn([*alone.values(), free, *shared.values()], SECONDS, index) for index in range(count)]
    solo = [list(alone).index(load) for load in loads]
    peaks = [alone[load].high_water_bytes for load in loads]
    steps = [[1 / rates[at][0] for at in solo] for rates in rounds]
    beside = [
        [rate * step for rate, step in zip(rates[len(alone)], own, strict=True)]
        for rates, own in zip(rounds, steps, strict=True)
    ]
    kept = median(sum(each) / len(each) for each in beside)
    yield Figure(f"{title}: of its speed alone that a job keeps beside others", kept, "x")
    for at, (policy, group) in enumerate(shared.items(), len(alone) + 1):
        traces = group.traces()
        spans, highest = [], []
        for rates, own, speeds in zip(rounds, steps, beside, strict=True):
            scaled = map(_scaled, traces, own, peaks)
            contention = _contention(loads, speeds)
            outcome = _simulated(scaled, rates[at], budget_bytes, policy, contention)
            spans.append(outcome.end_ns / 1e9 / SPAN_SECONDS)
            highest.append(outcome.peak_bytes / group.high_water_bytes)
        for what, ratio in (("makespan", median(spans)), ("peak", median(highest))):
            yield Figure(f"{title}, {policy}: simulated over live {what}", ratio, "x")
            yield Figure(f"{title}, {policy}: {what} off by", 100 * abs(ratio - 1), "%", "<= 5")
        yield from group.waits.figures(f"{title}, {policy}, live")
        yield from Waits.of(outcome.entries).figures(f"{title}, {policy}, simulated")


def _simulated(
    traces: Iterable[Trace], rates: Sequence[float], budget_bytes: int, policy: str, contention: Contention
) -> Outcome:
    jobs = [
        Job(name=f"job{index}", trace=trace, iterations=max(1, round(SPAN_SECONDS * rate)))
        for index, (trace, rate) in enumerate(zip(traces, rates, strict=True))
    ]
    submissions = [Submission(job) for job in jobs]
    return simulate(submissions, find_device("soft"), budget_bytes, find_policy(policy), contention=contention)


def _contention(loads: Sequence[Load], beside: Sequence[float]) -> Contention:
    """The capacity that the cores have for kernels of several jobs, whose programs also need the cores."""
    fills = [1.0 if load.sms is None else load.sms / find_device("soft").sms for load in loads]
    given = sum(fill * speed for fill, speed in zip(fills, beside, strict=True))
    return Contention(compute=1e9, bandwidth=1e9, fill=given, wave_seconds=0)


def _scaled(trace: Trace, seconds: float, peak_bytes: int) -> Trace:
    """The trace with times and bytes scaled to the time and the leases of an iteration alone."""
    longer, larger = seconds / trace.seconds, peak_bytes / trace.peak_bytes
    ops, tensors = trace.ops, trace.tensors
    ops = replace(
        ops,
        seconds=ops.seconds * longer,
        host_seconds=ops.host_seconds * longer,
        scratch_bytes=(ops.scratch_bytes * larger).astype(np.int64),
    )
    return replace(trace, ops=ops, tensors=replace(tensors, bytes=(tensors.bytes * larger).astype(np.int64)))


def quick(policies: Sequence[str]) -> None:
    """The first set under some policies, printed as it comes."""
    title, loads = next(iter(SETS.items()))
    for figure in compare(title, loads, policies, 1):
        print(figure_line(figure), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--quick"] or not sys.argv[2:]:
        raise SystemExit("use: python -m benchmarks.live --quick POLICY ..., or neaptide bench live")
    quick(sys.argv[2:])
