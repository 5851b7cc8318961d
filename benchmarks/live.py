"""Real jobs against the same jobs in virtual time: what they take together, and the most they hold.

The machine's speed changes by tens of per cent within minutes. So the jobs alone, together with unlimited memory, and
together under a budget take turns. The traces that the simulator gets are brought to the time of an iteration alone in
the same minutes, and to what it leases, in chunks and with gaps between blocks; and what jobs keep of their speed
beside each other is what those with unlimited memory do. Compared is what the budget and the policy make of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

import numpy as np
from benchmarks._live import Load, in_turn, together
from benchmarks.colocate import FULL_GPT, NARROW_GPT, NARROW_RESNET

from neaptide.core.device import find_device
from neaptide.core.job import Job
from neaptide.core.trace import Trace
from neaptide.policies.files import find_policy
from neaptide.reporting.bench import Figure
from neaptide.simulation import Contention, Submission, simulate

POLICIES = ("temporal", "zico", "neaptide")
SHARE = 0.65  # the budget's, of the sum of peaks
SECONDS = 3.0
ROUNDS = 6
SPAN_SECONDS = 60.0
SETS = {
    "two narrow GPT-2": (NARROW_GPT, NARROW_GPT),
    "a narrow ResNet-50 and a narrow GPT-2": (NARROW_RESNET, NARROW_GPT),
    "two GPT-2 that fill the device": (FULL_GPT, FULL_GPT),
}


def figures() -> Iterator[Figure]:
    """Of as many iterations of each job as it makes in a minute beside the others."""
    for title, loads in SETS.items():
        with ExitStack() as stack:
            alone = [stack.enter_context(together([load], "neaptide", None)) for load in dict.fromkeys(loads)]
            solo = [list(dict.fromkeys(loads)).index(load) for load in loads]
            free = stack.enter_context(together(loads, "spatial", None))
            budget_bytes = round(SHARE * sum(free.needs_bytes))
            shared = {policy: stack.enter_context(together(loads, policy, budget_bytes)) for policy in POLICIES}
            rounds = [in_turn([*alone, free, *shared.values()], SECONDS, index) for index in range(ROUNDS)]
            steps = [median(1 / rates[at][0] for rates in rounds) for at in solo]
            beside = [median(rates[len(alone)][job] for rates in rounds) * steps[job] for job in range(len(loads))]
            contention = _contention(loads, beside)
            yield Figure(f"{title}: of its speed alone that a job keeps beside others", sum(beside) / len(beside), "x")
            for at, (policy, group) in enumerate(shared.items(), len(alone) + 1):
                rates = [median(rates[at][job] for rates in rounds) for job in range(len(loads))]
                jobs = [
                    Job(
                        name=f"job{job}",
                        trace=_brought_to(trace, steps[job], alone[solo[job]].high_water_bytes),
                        iterations=round(SPAN_SECONDS * rates[job]),
                    )
                    for job, trace in enumerate(group.traces())
                ]
                outcome = simulate(
                    [Submission(job) for job in jobs],
                    find_device("soft"),
                    budget_bytes,
                    find_policy(policy),
                    contention=contention,
                )
                span = outcome.end_ns / 1e9 / SPAN_SECONDS
                yield Figure(f"{title}, {policy}: simulated over live makespan", span, "x")
                yield Figure(f"{title}, {policy}: off by", 100 * abs(span - 1), "%", "<= 5")
                peak = outcome.peak_bytes / group.high_water_bytes
                yield Figure(f"{title}, {policy}: simulated over live peak", peak, "x")
                yield Figure(f"{title}, {policy}: peak off by", 100 * abs(peak - 1), "%", "<= 5")


def _contention(loads: Sequence[Load], beside: Sequence[float]) -> Contention:
    """What the machine's cores can give to kernels of several jobs at once: their programs need them as well."""
    fills = [1.0 if load.sms is None else load.sms / find_device("soft").sms for load in loads]
    given = sum(fill * speed for fill, speed in zip(fills, beside, strict=True))
    return Contention(compute=1e9, bandwidth=1e9, fill=given, wave_seconds=0)


def _brought_to(trace: Trace, seconds: float, peak_bytes: int) -> Trace:
    """The trace with all times and all bytes changed, by a factor each, to what an iteration takes and leases alone."""
    longer, larger = seconds / trace.seconds, peak_bytes / trace.peak_bytes
    ops, tensors = trace.ops, trace.tensors
    ops = replace(
        ops,
        seconds=ops.seconds * longer,
        host_seconds=ops.host_seconds * longer,
        scratch_bytes=(ops.scratch_bytes * larger).astype(np.int64),
    )
    return replace(trace, ops=ops, tensors=replace(tensors, bytes=(tensors.bytes * larger).astype(np.int64)))
