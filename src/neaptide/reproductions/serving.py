"""Salus's inference packing: three instances of each of 14 models on one device, in one lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

import numpy as np

from neaptide.core.control.actions import Admit
from neaptide.core.control.controller import Decided, Entry
from neaptide.core.control.events import JobEnded
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.log_format import facts_of
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Tensors, Trace
from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Mark, Source
from neaptide.reproductions.laboratory import Laboratory, policies
from neaptide.reproductions.result import Column, Goal, Table, percent
from neaptide.scenarios.compare import compare
from neaptide.simulation import Submission
from neaptide.simulation.workloads import poisson

MODELS = (
    *("alexnet", "googlenet", "inception3", "inception4", "overfeat", "resnet50", "resnet101", "resnet152"),
    *("vgg11", "vgg16", "vgg19", "speech", "superres", "vae"),
)
COPIES = 3
POLICIES = ("fifo", "spatial", "salus-pack", "neaptide")
REQUESTS, LOAD = 8, 0.5  # requests per instance; share of the time that serving all of them in turns would take
# Salus's 42 instances: the sum of persistent bytes, the largest ephemeral bytes, and the sum of peaks.
PERSISTENT_BYTES, LARGEST_BYTES, PEAKS_BYTES = 9_758_000_000, 3_271_000_000, 77_100_000_000


@dataclass(frozen=True, slots=True)
class Instances:
    """The results of one policy with all instances."""

    policy: str
    resident: int  # instances admitted at the same time
    answered: float  # share of the requests
    latency_ns: float | None  # mean
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Serving:
    """The results of the experiment, with the bytes of our estimates or with the published bytes."""

    bytes_of: str
    count: int
    persistent_bytes: int
    ephemeral_bytes: int  # the largest
    peaks_bytes: int
    memory_bytes: int
    rows: Sequence[Instances]

    def table(self) -> Table:
        columns = (
            Column("policy", "policy", left=True),
            Column("resident at once", "resident"),
            Column("requests answered", "answered", percent),
            Column("mean latency", "latency_ns", lambda ns: format_seconds(ns / 1e9)),
            Column("peak", "peak_bytes", format_bytes),
        )
        rows = [(row.policy, row.resident, row.answered, row.latency_ns, row.peak_bytes) for row in self.rows]
        together = (
            f"Sum of persistent bytes: {format_bytes(self.persistent_bytes)}; largest ephemeral bytes: "
            f"{format_bytes(self.ephemeral_bytes)}; sum of peaks: {format_bytes(self.peaks_bytes)}."
        )
        title = f"{self.count} inference instances, batch 1, with the bytes {self.bytes_of}"
        return Table(f"serving, {self.bytes_of}", title, columns, rows, (together,))

    def resident(self, policy: str) -> int:
        return next(row.resident for row in self.rows if row.policy == policy)

    def claims(self) -> list[Claim]:
        resident = self.resident("salus-pack")
        over = resident / max(self.resident("spatial"), 1)
        other = f"Virtual time, with the bytes {self.bytes_of}; their distribution over the models is ours."
        return [
            Claim(
                says=f"inference instances on one GPU, with the bytes {self.bytes_of}",
                published="42 of 42",
                source=Source.RECALLED,
                ours=f"{resident} of {self.count}",
                agrees=resident == self.count,
                other_setting=other,
            ),
            Claim(
                says=f"inference instances on one GPU, Salus over MPS, with the bytes {self.bytes_of}",
                published="7x",
                source=Source.RECALLED,
                ours=format_times(over),
                agrees=over >= 7,
                other_setting=other,
                marked=(Mark.CHOSEN,),
            ),
        ]

    def goals(self) -> list[Goal]:
        peak = next(row.peak_bytes for row in self.rows if row.policy == "salus-pack")
        resident, mine = self.resident("salus-pack"), self.resident("neaptide")
        return [
            Goal(
                f"42 of 42 inference instances resident within 16 GB, with the bytes {self.bytes_of}",
                f"{resident} of {self.count} under salus, at most {format_bytes(peak)} held; {mine} under neaptide",
                min(resident, mine) == self.count and peak <= self.memory_bytes,
            )
        ]


def together(found: Sequence[Serving]) -> Table:
    """How many instances Salus and MPS hold, with our own bytes and with the published ones."""
    columns = (
        Column("bytes", "bytes", left=True),
        Column("Salus holds", "salus"),
        Column("MPS holds", "mps"),
        Column("Salus over MPS", "over", format_times),
    )
    rows = [
        (each.bytes_of, (held := each.resident("salus-pack")), (mps := each.resident("spatial")), held / max(mps, 1))
        for each in found
    ]
    return Table("instances", "Inference instances on one device", columns, rows)


def serve(laboratory: Laboratory) -> list[Serving]:
    """Run all instances under each policy, with our bytes and with the published bytes."""
    ours = [laboratory.trace(model, 1, inference=True) for model in MODELS]
    return [_serve(laboratory, "of our estimates", ours), _serve(laboratory, "published", with_published_bytes(ours))]


def with_published_bytes(traces: Sequence[Trace]) -> list[Trace]:
    """The same kernels with other bytes: sums and maximum as published, ephemeral bytes spread evenly."""
    persistent = PERSISTENT_BYTES // (COPIES * len(traces))
    mean = (PEAKS_BYTES - PERSISTENT_BYTES) / (COPIES * len(traces))
    slope = 2 * (LARGEST_BYTES - mean) / max(len(traces) - 1, 1)
    return [
        _with_bytes(trace, persistent, max(round(LARGEST_BYTES - index * slope), 1))
        for index, trace in enumerate(traces)
    ]


def _with_bytes(trace: Trace, persistent: int, ephemeral: int) -> Trace:
    count = len(trace.ops)
    words = Labels.of(["", ""])
    tensors = Tensors(
        bytes=np.array([persistent, ephemeral]),
        kind=np.array([Kind.PARAMETER, Kind.TEMPORARY], dtype=np.uint8),
        label=words,
        layout=words,
        born=np.array([-1, 0]),
        died=np.array([count, count - 1]),
        saved=np.zeros(2, dtype=np.bool_),
    )
    nothing = Lists.of([()] * count)
    ops = replace(trace.ops, reads=nothing, writes=nothing, scratch_bytes=np.zeros(count, dtype=np.int64))
    return replace(trace, ops=ops, tensors=tensors)


def _serve(laboratory: Laboratory, bytes_of: str, traces: Sequence[Trace]) -> Serving:
    per_second = LOAD / (COPIES * sum(trace.seconds for trace in traces))
    submissions: list[Submission] = []
    for model, trace in zip(MODELS, traces, strict=True):
        for copy in range(1, COPIES + 1):
            job = Job(name=f"{model}-{copy}", trace=trace, kind=JobKind.INFERENCE)
            times_ns = poisson(per_second, laboratory.seed * 1000 + len(submissions))
            submissions.append(Submission(job, 0, tuple(islice(times_ns, REQUESTS))))
    Random(laboratory.seed).shuffle(submissions)  # how many instances fit side by side depends on their order
    memory_bytes = laboratory.device.memory_bytes
    facts = facts_of(each.job for each in submissions)
    with progress("simulating inference instances") as on_progress:
        runs = compare(submissions, laboratory.device, memory_bytes, policies(*POLICIES), on_progress=on_progress)
    rows = []
    for run in runs:
        latencies = [latency for record in run.row.metrics.jobs for latency in record.latencies_ns]
        mean_ns = sum(latencies) / len(latencies) if latencies else None
        answered = len(latencies) / (REQUESTS * len(submissions))
        resident = _resident(run.outcome.entries)
        rows.append(Instances(run.row.policy, resident, answered, mean_ns, run.row.peak_bytes))
    return Serving(
        bytes_of,
        len(submissions),
        sum(each.persistent_bytes for each in facts),
        max(each.peak_bytes - each.persistent_bytes for each in facts),
        sum(each.peak_bytes for each in facts),
        memory_bytes,
        rows,
    )


def _resident(entries: Sequence[Entry]) -> int:
    """How many instances were admitted before the first one ended."""
    count = 0
    for entry in entries:
        if isinstance(entry, JobEnded):
            break
        count += isinstance(entry, Decided) and isinstance(entry.action, Admit)
    return count
