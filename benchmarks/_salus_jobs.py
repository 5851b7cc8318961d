"""A trace of 100 jobs in the shape of Salus's, fitted to the averages that the paper publishes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import islice
from statistics import NormalDist

from neaptide.simulation.workloads import JobWanted, poisson

# Salus's workloads (three batch sizes each; the sequence models name their size instead).
SALUS_WORKLOADS: tuple[tuple[str, int], ...] = (
    *((name, batch) for name in ("alexnet", "googlenet", "inception3", "overfeat") for batch in (25, 50, 100)),
    *((name, batch) for name in ("inception4", "resnet50", "resnet101", "resnet152") for batch in (25, 50, 75)),
    *((name, batch) for name in ("vgg11", "vgg16", "vgg19") for batch in (25, 50, 100)),
    *(("speech", batch) for batch in (25, 50, 75)),
    *((f"seq2seq-{size}", 20) for size in ("small", "medium", "large")),
    *(("superres", batch) for batch in (32, 64, 128)),
    *(("vae", batch) for batch in (64, 128, 256)),
)
# Three published averages determine the trace. The mean duration is the makespan divided by 100. The spread of the
# log-normal distribution is chosen such that the average job takes about 53.4 minutes when the shortest job goes first.
# Of 64 random orders, the one whose queueing share of the makespan under FIFO is nearest to the published one is used.
_SPREAD = 1.4
_ORDERS = 64
_QUEUE_SHARE = 167.6 / 303.4
_MEAN_SECONDS = 180.0
_MEAN_GAP_SECONDS = 6.0
_SHORTEST_SECONDS = 2.0


def salus_jobs(seed: int, count: int = 100) -> tuple[JobWanted, ...]:
    """A trace like Salus's: its workloads in turn, in random order, many short jobs and a few long ones.

    The production trace itself is not published. The durations are the quantiles of one distribution, so that seeds
    differ in which job is long and when it comes, and not in how much work there is.
    """
    if count < 1:
        raise ValueError(f"a trace needs at least one job, not {count}")
    chance = random.Random(seed)
    normal = NormalDist(0, _SPREAD)
    durations = [math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count)]
    scale = _MEAN_SECONDS * count / sum(durations)
    durations = [max(duration * scale, _SHORTEST_SECONDS) for duration in durations]
    chosen = [SALUS_WORKLOADS[i % len(SALUS_WORKLOADS)] for i in range(count)]
    chance.shuffle(chosen)
    arrivals = list(islice(poisson(1 / _MEAN_GAP_SECONDS, chance.randrange(2**32)), count))
    orders = [chance.sample(durations, count) for _ in range(_ORDERS)]
    durations = min(orders, key=lambda order: abs(_queue_share(arrivals, order) - _QUEUE_SHARE))
    return tuple(
        JobWanted(model, batch, arrives_ns, seconds)
        for (model, batch), arrives_ns, seconds in zip(chosen, arrivals, durations, strict=True)
    )


def _queue_share(arrivals_ns: Sequence[int], durations: Sequence[float]) -> float:
    """How long jobs queue on average when they run one by one in order of arrival, as a share of the makespan."""
    free = queued = 0.0
    for arrives_ns, seconds in zip(arrivals_ns, durations, strict=True):
        starts = max(free, arrives_ns / 1e9)
        queued += starts - arrives_ns / 1e9
        free = starts + seconds
    return queued / len(durations) / free
