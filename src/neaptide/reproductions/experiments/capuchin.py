"""Capuchin: the largest batch that trains on a device, and what it costs.

Published: BERT's largest batch is 7 times that of TensorFlow without it (reported, not re-checked).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Trace
from neaptide.core.units import format_bytes
from neaptide.planning.apply import summary_of
from neaptide.planning.plan import CannotFitError, Planner

PUBLISHED_BERT_BATCH_RATIO = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The largest batch of one network under one planner."""

    name: str
    planner: str  # empty: none
    batch: int
    batch_ratio: float  # to the largest without a planner
    seconds_per_sample: float
    slowdown: float  # per sample, against the largest batch without a planner


def rows(
    name: str, trace_of: Callable[[int], Trace], planners: Mapping[str, Planner], device: DeviceSpec, most: int = 4096
) -> list[Row]:
    """The largest batches without a planner and with each, by doubling and halving. `trace_of` takes a batch.

    ValueError if not even one sample fits without a planner: there is nothing to compare with.
    """

    def seconds(planner: Planner | None, batch: int) -> float | None:
        trace = trace_of(batch)
        if planner is None:
            return trace.seconds if trace.peak_bytes <= device.memory_bytes else None
        try:
            return summary_of(trace, planner(trace, device.memory_bytes, device), device).seconds
        except CannotFitError:
            return None

    found: list[Row] = []
    for label, planner in {"": None, **planners}.items():
        batch, taken = largest_batch(lambda batch, planner=planner: seconds(planner, batch), most)  # type: ignore[misc]
        if batch == 0 and planner is None:
            memory = format_bytes(device.memory_bytes)
            raise ValueError(f"{name} does not fit {device.name} ({memory}) even at batch 1; name a larger device")
        if batch == 0:
            continue
        plain = found[0] if found else None
        each = taken / batch
        found.append(
            Row(
                name=name,
                planner=label,
                batch=batch,
                batch_ratio=batch / plain.batch if plain else 1.0,
                seconds_per_sample=each,
                slowdown=each / plain.seconds_per_sample if plain else 1.0,
            )
        )
    return found


def largest_batch(seconds: Callable[[int], float | None], most: int) -> tuple[int, float]:
    """The largest batch that `seconds` has an answer for, and that answer; (0, 0) if there is none."""
    good, taken, bad = 0, 0.0, most + 1
    while bad - good > max(good // 16, 1):
        batch = min(max(2 * good, 1), most) if bad > most else (good + bad) // 2
        found = seconds(batch)
        if found is None:
            bad = batch
        else:
            good, taken = batch, found
        if good == most:
            break
    return good, taken


def scaled(trace: Trace, batch: int) -> Trace:
    """The trace at another batch, near enough to look for the largest: what is per sample grows with the batch.

    ValueError if the trace does not know its own.
    """
    if trace.batch < 1:
        raise ValueError(f"the trace of {trace.name} does not say its batch, so it cannot be scaled to another")
    times = batch / trace.batch
    fixed = np.isin(trace.tensors.kind, (Kind.PARAMETER, Kind.BUFFER, Kind.GRADIENT, Kind.OPTIMIZER))
    grown = np.round(trace.tensors.bytes * times).astype(np.int64)
    sizes = np.where(fixed, trace.tensors.bytes, grown)
    ops = replace(
        trace.ops,
        seconds=trace.ops.seconds * times,
        scratch_bytes=np.round(trace.ops.scratch_bytes * times).astype(np.int64),
    )
    return replace(trace, batch=batch, ops=ops, tensors=replace(trace.tensors, bytes=sizes))
