"""Capuchin (ASPLOS'20): the largest batch of BERT that trains on a device, and its cost.

Published: BERT's largest batch is 7 times that of TensorFlow without Capuchin.
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
from neaptide.planning.planners import PLANNERS
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Column, Reproduction, Table

DEVICE = "V100-16GB"
MODEL, BATCH = "bert-base", 32
_MOST = 4096  # the largest batch that is tried
COMPARED = ("capuchin", "vdnn", "best")
PUBLISHED_BERT_BATCH_RATIO = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch of one network under one planner."""

    name: str
    planner: str  # empty without a planner
    batch: int
    batch_ratio: float  # to the largest batch without a planner
    seconds_per_sample: float
    slowdown: float  # per sample, against the largest batch without a planner


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Find the largest batch without a planner and with each compared planner."""
    trace = laboratory.trace(MODEL, BATCH)
    with progress("looking for the largest batch"):
        planners = {name: PLANNERS.make(name) for name in COMPARED}
        found = largest_batches(MODEL, lambda batch: scaled(trace, batch), planners, laboratory.device)
    ours = next((row.batch_ratio for row in found if row.planner == "capuchin"), 0.0)
    return Reproduction(
        paper="Capuchin (ASPLOS 2020)",
        device=laboratory.device.name,
        setting=(f"{MODEL}: its iteration at batch {BATCH}, scaled to other batches; the device's whole memory.",),
        tables=(
            Table(
                "batches",
                "Largest batch",
                (
                    Column("planner", "planner", lambda name: name or "none", left=True),
                    Column("batch", "batch"),
                    Column("of none", "batch_ratio", format_times),
                    Column("time per sample", "slowdown", format_times),
                ),
                [(row.planner, row.batch, row.batch_ratio, row.slowdown) for row in found],
            ),
        ),
        claims=(
            Claim(
                says="BERT's largest batch over that without a planner",
                published=f"{PUBLISHED_BERT_BATCH_RATIO:.0f}x",
                source=Source.PUBLIC,
                ours=format_times(ours),
                agrees=ours >= PUBLISHED_BERT_BATCH_RATIO,
                other_setting="Theirs ran, and is over TensorFlow's largest batch; ours is a plan for a scaled trace.",
            ),
        ),
        goals=(),
        unknown=("The sequence length, and what the framework held beside the tensors.",),
        differs=(
            "Theirs is the largest batch that ran at all. Ours is the largest whose plan fits, with its time per "
            "sample. We scale the trace of one batch to other batches, so small differences mean nothing.",
        ),
    )


def largest_batches(
    name: str, trace_of: Callable[[int], Trace], planners: Mapping[str, Planner], device: DeviceSpec
) -> list[LargestBatch]:
    """The largest batches without a planner and with each planner. `trace_of` makes the trace of a batch.

    ValueError if not even one sample fits without a planner: then there is nothing to compare with.
    """

    def seconds(planner: Planner | None, batch: int) -> float | None:
        trace = trace_of(batch)
        if planner is None:
            return trace.seconds if trace.peak_bytes <= device.memory_bytes else None
        try:
            return summary_of(trace, planner(trace, device.memory_bytes, device), device).seconds
        except CannotFitError:
            return None

    found: list[LargestBatch] = []
    for label, planner in {"": None, **planners}.items():
        batch, taken = largest_batch(lambda batch, planner=planner: seconds(planner, batch), _MOST)  # type: ignore[misc]
        if batch == 0 and planner is None:
            memory = format_bytes(device.memory_bytes)
            raise ValueError(f"{name} does not fit {device.name} ({memory}) even at batch 1; name a larger device")
        if batch == 0:
            continue
        plain = found[0] if found else None
        each = taken / batch
        found.append(
            LargestBatch(
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
    """The largest batch for which `seconds` is not None, to a sixteenth, and its seconds; (0, 0) if there is none."""
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
    """An approximate trace at another batch: times, activations and scratch grow with the batch.

    ValueError if the trace does not say its own batch.
    """
    if trace.batch < 1:
        raise ValueError(f"the trace of {trace.name} does not say its batch, so it cannot be scaled to another")
    growth = batch / trace.batch
    fixed = np.isin(trace.tensors.kind, (Kind.PARAMETER, Kind.BUFFER, Kind.GRADIENT, Kind.OPTIMIZER))
    grown = np.round(trace.tensors.bytes * growth).astype(np.int64)
    sizes = np.where(fixed, trace.tensors.bytes, grown)
    ops = replace(
        trace.ops,
        seconds=trace.ops.seconds * growth,
        scratch_bytes=np.round(trace.ops.scratch_bytes * growth).astype(np.int64),
    )
    return replace(trace, batch=batch, ops=ops, tensors=replace(trace.tensors, bytes=sizes))
