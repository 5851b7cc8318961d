"""How long the device is idle between one job's iteration and the next job's first kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from benchmarks._live import Load, spans_of

from neaptide.reporting.terminal.bench import Figure

# An iteration takes some milliseconds, so that there are many switches.
LOAD = Load("vae", 64, 1)
RESIDENT = (2, 8, 32)
SECONDS = 8.0


def figures() -> Iterator[Figure]:
    """Jobs take turns; the device's kernel log says when each iteration began and ended."""
    for count in RESIDENT:
        gaps_ms = 1e-6 * np.array(_gaps_ns(spans_of([LOAD] * count, "temporal", SECONDS)))
        if gaps_ms.size == 0:
            raise RuntimeError("no switch was seen")
        yield Figure(f"{count} jobs: switches", gaps_ms.size, "switches")
        yield Figure(f"{count} jobs: switch, median", float(np.median(gaps_ms)), "ms")
        yield Figure(f"{count} jobs: switch, 99th of 100", float(np.percentile(gaps_ms, 99)), "ms", "<= 1")


def _gaps_ns(spans_ns: list[list[tuple[int, int]]]) -> list[int]:
    order = sorted((start, end, job) for job, spans in enumerate(spans_ns) for start, end in spans)
    return [
        max(0, start - ended) for (_, ended, before), (start, _, after) in itertools.pairwise(order) if before != after
    ]
