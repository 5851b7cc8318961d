"""The open corner of published sharing: a server's tail as alone, and more training than anyone has shown beside it.

Tally (ASPLOS'25) and the systems that it compares with, from its public result files: twelve pairs of a training job
and a server at load 0.5 on an A100. Ours are twelve pairs of the zoo at the same load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_seconds
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.formats import format_share, format_times
from neaptide.reporting.logs.metrics import percentile
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory, policies
from neaptide.reproductions.result import Column, Goal, Reproduction, Table
from neaptide.scenarios.compare import compare
from neaptide.simulation import Submission
from neaptide.simulation.workloads import poisson

DEVICE = "A100-40GB"
TRAINING = (
    ("resnet50", 64),
    ("vgg16", 64),
    ("bert-base", 16),
    ("gpt2", 4),
    ("transformer", 32),
    ("rnnlm-large", 20),
)
SERVERS = (("bert-base", 8), ("resnet50", 16))
LOAD = 0.5  # of what the server can do alone
REQUESTS = 400
LEAST_ITERATIONS = 24  # of the training, so that whole ones count it well enough
SLO_FACTOR = 2.0  # times the p99 alone
# From Tally's public result files: p99 of that alone, training of alone; least and most of the twelve pairs.
PUBLISHED = (
    ("Tally", (1.01, 1.10), (0.37, 0.52)),
    ("TGS", (1.22, 5.11), (0.68, 0.88)),
    ("MPS with priority", (1.27, 5.81), (0.74, 0.96)),
    ("MPS", (1.29, 11.8), (0.74, 1.00)),
    ("time slicing", (1.77, 2.73), (0.47, 0.73)),
)
CORNER = (1.10, 0.52)  # p99 at most, training more than


@dataclass(frozen=True, slots=True)
class Way:
    """How the device is shared."""

    name: str
    policy: str
    latency_critical: bool = False


WAYS = (
    Way("turns", "temporal"),
    Way("MPS", "spatial"),
    Way("herald", "herald"),
    Way("neaptide, --slo", "neaptide"),
    Way("neaptide, --latency-critical", "neaptide", latency_critical=True),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One training job beside one server, shared in one way."""

    way: str
    training: str
    server: str
    tail: float  # p99 of the p99 alone
    kept: float  # of the deadlines
    throughput: float  # of the training alone
    longest_seconds: float  # of the training's ops
    alone_seconds: float  # the server's p99

    @property
    def in_corner(self) -> bool:
        return self.tail <= CORNER[0] and self.throughput > CORNER[1]

    @property
    def tail_beyond_an_op(self) -> float:
        """The p99 as a part of that alone and the training's longest op, which nobody interrupts."""
        return self.tail * self.alone_seconds / (self.alone_seconds + self.longest_seconds)


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run the twelve pairs in all ways."""
    trained = {model: laboratory.trace(model, batch) for model, batch in TRAINING}
    served = {model: laboratory.trace(model, batch, inference=True) for model, batch in SERVERS}
    found: list[Pair] = []
    with progress("simulating servers beside training") as on_progress:
        for server, serving in served.items():
            for training, trace in trained.items():
                case = _Case(laboratory.device, training, trace, server, replace(serving, batch=1), laboratory.seed)
                for way in WAYS:
                    on_progress(len(found), len(WAYS) * len(trained) * len(served))
                    found.append(case.run(way))
    return _report(laboratory, found, trained, served)


@dataclass(frozen=True, slots=True)
class _Case:
    """A training job and a server, of which a request is a whole batch."""

    device: DeviceSpec
    training: str
    trained: Trace
    server: str
    served: Trace
    seed: int

    @property
    def _requests_ns(self) -> tuple[int, ...]:
        """Poisson arrivals, for as long as the training needs for enough iterations if it gets its share."""
        rate = LOAD / self.served.seconds
        count = max(REQUESTS, round(rate * LEAST_ITERATIONS * self.trained.seconds / (1 - LOAD)))
        return tuple(islice(poisson(rate, self.seed), count))

    def run(self, way: Way) -> Pair:
        alone = self._latencies(way, None, trains=False)[0]
        alone_seconds = percentile(alone, 99) or 0.0
        latencies, done = self._latencies(way, SLO_FACTOR * alone_seconds, trains=True)
        kept = sum(each <= SLO_FACTOR * alone_seconds for each in latencies) / len(latencies)
        return Pair(
            way.name,
            self.training,
            self.server,
            (percentile(latencies, 99) or 0.0) / alone_seconds,
            kept,
            done * self.trained.seconds / (self._requests_ns[-1] / 1e9),
            float(self.trained.ops.seconds.max()),
            alone_seconds,
        )

    def _latencies(self, way: Way, slo_seconds: float | None, trains: bool) -> tuple[list[float], int]:
        """Seconds from the arrival of each request to its end, and the iterations of the training meanwhile."""
        serving = Job(
            name="server",
            trace=self.served,
            kind=JobKind.INFERENCE,
            deadline_seconds=slo_seconds,
            latency_critical=way.latency_critical,
        )
        submissions = [Submission(serving, 0, self._requests_ns)]
        submissions += [Submission(Job(name="training", trace=self.trained))] if trains else []
        until_ns = self._requests_ns[-1]
        [run] = compare(submissions, self.device, self.device.memory_bytes, policies(way.policy), until_ns=until_ns)
        records = {record.job.name: record for record in run.row.metrics.jobs}
        iterations = records["training"].iterations if trains else 0
        return [each / 1e9 for each in records["server"].latencies_ns], iterations


def _report(
    laboratory: Laboratory, found: Sequence[Pair], trained: dict[str, Trace], served: dict[str, Trace]
) -> Reproduction:
    def of(way: str) -> list[Pair]:
        return [each for each in found if each.way == way]

    critical, slo = of(WAYS[-1].name), of(WAYS[-2].name)
    requests = ", ".join(f"{name} {format_seconds(trace.seconds)}" for name, trace in served.items())
    iterations = ", ".join(f"{name} {format_seconds(trace.seconds)}" for name, trace in trained.items())
    limit = [each.tail for each in critical]
    inside = sum(each.in_corner for each in critical)
    return Reproduction(
        paper="The open corner (Tally's table)",
        device=laboratory.device.name,
        setting=(
            f"Servers at load {LOAD:g}, Poisson arrivals, one batch per request, alone: {requests}.",
            f"Training alone, per iteration: {iterations}.",
            f"The deadline of --slo is {SLO_FACTOR:g} times the p99 alone.",
        ),
        tables=(_summary(found), _pairs(found)),
        claims=(
            Claim(
                says="Tally: p99 at most 1.10 of alone, with 0.37 to 0.52 of the training's speed",
                published="1.01-1.10, 0.37-0.52",
                source=Source.PUBLIC,
                ours=f"{_range(limit)}, {_range([each.throughput for each in critical])} (--latency-critical)",
                agrees=None,
                other_setting="Virtual time, the zoo's networks and their kernels; Tally is another system.",
            ),
        ),
        goals=(
            Goal(
                "--latency-critical: p99 at most 1.10 of alone and the training's longest op",
                _range([each.tail_beyond_an_op for each in critical]),
                max(each.tail_beyond_an_op for each in critical) <= CORNER[0],
            ),
            Goal(
                "--latency-critical: pairs in the corner, p99 at most 1.10 and training above 0.52",
                f"{inside} of {len(critical)}",
                inside == len(critical),
            ),
            Goal(
                "--slo: 99% of the deadlines kept in every pair",
                format_share(min(each.kept for each in slo)),
                min(each.kept for each in slo) >= 0.99,
            ),
            Goal(
                "--slo: training at least 0.9 of what the load leaves",
                _range([each.throughput for each in slo]),
                min(each.throughput for each in slo) >= 0.9 * (1 - LOAD),
            ),
        ),
        unknown=("Tally's kernels one by one; the sizes of its servers' batches.",),
        differs=(
            "A load of 0.5 leaves half of the device's time. Training above 0.52 is possible only where ops of the "
            "server do not fill the device, or where the host keeps it waiting.",
            "Nobody interrupts an op: beside ops of more than 20 ms (VGG-16, GPT-2) the tail is longer by one op.",
        ),
        figures={
            "corner-training.png": partial(
                save_bars,
                Bars(
                    "Training (of alone)",
                    [f"{each.training}\n{each.server}" for each in critical],
                    {way.name: [each.throughput for each in of(way.name)] for way in WAYS},
                    CORNER[1],
                    "Training beside a server at load 0.5",
                ),
            )
        },
    )


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}"


def _summary(found: Sequence[Pair]) -> Table:
    columns = (
        Column("way", "way", left=True),
        Column("p99", "tail", _range),
        Column("training", "throughput", _range),
        Column("deadlines kept", "kept", format_share),
        Column("pairs in the corner", "in_corner"),
    )
    rows: list[tuple[object, ...]] = [
        (f"{name} (published)", tail, throughput, None, None) for name, tail, throughput in PUBLISHED
    ]
    for way in WAYS:
        own = [each for each in found if each.way == way.name]
        tails, speeds = [each.tail for each in own], [each.throughput for each in own]
        kept, inside = min(each.kept for each in own), sum(each.in_corner for each in own)
        rows.append((way.name, (min(tails), max(tails)), (min(speeds), max(speeds)), kept, inside))
    title = "Twelve pairs, least to most: p99 of that alone, and training of its speed alone"
    return Table("summary", title, columns, rows, ("Deadlines kept: in the pair in which they were kept least.",))


def _pairs(found: Sequence[Pair]) -> Table:
    columns = (
        Column("server", "server", left=True),
        Column("training", "training", left=True),
        Column("way", "way", left=True),
        Column("p99", "tail", format_times),
        Column("deadlines\nkept", "kept", format_share),
        Column("training's\nspeed", "throughput", format_share),
        Column("longest\ntraining op", "longest_seconds", format_seconds),
    )
    rows = [
        (each.server, each.training, each.way, each.tail, each.kept, each.throughput, each.longest_seconds)
        for each in found
    ]
    return Table("pairs", "Pair by pair", columns, rows)
