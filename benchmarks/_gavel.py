"""Gavel's jobs on a V100: the measured rates, and the rates in the simulator.

An estimated trace is scaled to the measured time of one iteration alone before it runs beside another, so that the
comparison tests contention and not the estimate of a job's own time.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks import _gavel_networks as networks

import neaptide
from neaptide.core.control.actions import Action, Admit, CapInFlight, Start
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import Job
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.columns import Flags, Integers, Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Tensors, Trace
from neaptide.scenarios.trace_cache import TraceCache, TraceKey
from neaptide.simulation import Contention, Submission, simulate

V100 = find_device("V100-16GB")
KERNELS_PER_STEP = 2  # of a recurrent layer: a matrix product and the other ops
QUEUED_KERNELS = 1024  # the length of CUDA's launch queue, the only bound of the measured jobs
ITERATIONS = 20  # a simulated run is as long as this many of the slower job alone


@dataclass(frozen=True, slots=True)
class Pair:
    """Two jobs beside each other; rates are shares of the rates alone."""

    jobs: tuple[str, str]
    rates: tuple[float, float]

    @property
    def fitted(self) -> bool:
        """Whether the pair belongs to the half that parameters are fitted to; the other half is only reported."""
        return hashlib.sha256(" + ".join(self.jobs).encode()).digest()[0] % 2 == 0


class Mps(Policy):
    """Starts all jobs at once and lets them launch as far ahead as CUDA does."""

    name = "mps"

    def decide(self, view: View) -> Sequence[Action]:
        caps = [action for job in view.queued for action in (Admit(job.name), CapInFlight(job.name, QUEUED_KERNELS))]
        return [*caps, *(Start(job.name) for job in [*view.queued, *view.startable])]


def parsed(job: str) -> tuple[str, int]:
    """The network and the batch of a job; the batch is 1 if the job's name has none."""
    found = re.fullmatch(r"(.+?)(?: \(batch size (\d+)\))?", job)
    if found is None or found[1] not in networks.BUILDERS:
        raise ValueError(f"no network is known for job {job!r}; there are {', '.join(networks.BUILDERS)}")
    return found[1], int(found[2] or 1)


def measured_seconds(folder: Path) -> dict[str, float]:
    """The seconds of one iteration of each job alone. A step of Gavel's recommendation job is an epoch."""
    with (folder / "solo.csv").open() as rows:
        steps = {row["job"]: float(row["steps_per_s"]) for row in csv.DictReader(rows)}
    found = {}
    for job, per_second in steps.items():
        network, batch = parsed(job)
        found[job] = 1 / per_second / (networks.USERS / batch if network == "Recommendation" else 1)
    return found


def measured_pairs(folder: Path) -> list[Pair]:
    """The pairs of which both jobs ran."""
    with (folder / "solo.csv").open() as rows:
        alone = {row["job"]: float(row["steps_per_s"]) for row in csv.DictReader(rows)}
    with (folder / "pairs.csv").open() as rows:
        pairs = [
            Pair((a, b), (float(row["a_steps_per_s"]) / alone[a], float(row["b_steps_per_s"]) / alone[b]))
            for row in csv.DictReader(rows)
            for a, b in [(row["job_a"], row["job_b"])]
        ]
    return [pair for pair in pairs if min(pair.rates) > 0]


def traces(seconds: dict[str, float]) -> dict[str, Trace]:
    """A trace for each job that takes the given seconds alone."""
    return {job: calibrated(estimate(job), alone) for job, alone in seconds.items()}


def estimate(job: str) -> Trace:
    """An estimated iteration, cached between runs."""
    network, batch = parsed(job)
    source = hashlib.sha256(Path(networks.__file__).read_bytes()).hexdigest()
    cache, wanted = TraceCache(V100), TraceKey(f"gavel-{network}-{source[:8]}", batch, "paper", inference=False)
    trace = cache.get(wanted)
    if trace is None:
        trace = neaptide.estimate(lambda: networks.BUILDERS[network](batch), V100, name=job, batch=batch)
        cache.put(wanted, trace)
    return trace


def calibrated(trace: Trace, alone: float) -> Trace:
    """The ops of a trace, without its tensors, scaled so that an iteration takes `alone` seconds.

    If the estimate is shorter, the rest is host time before the first launch, in which batches are made. If it is
    longer, all ops are shortened.
    """
    ops, (times, recurrent) = trace.ops, _kernels(trace)
    seconds = np.repeat(ops.seconds / times, times)
    # The estimate reads all weights at every step; the device keeps them in its caches.
    seconds[recurrent] = np.minimum(seconds[recurrent], V100.kernel_seconds)
    names, nothing = Labels.of(["op"] * seconds.size), Lists.of([()] * seconds.size)
    bare = replace(
        trace,
        tensors=_one_byte(seconds.size),
        ops=Ops(
            name=names,
            module=names,
            phase=np.repeat(ops.phase, times),
            seconds=seconds,
            host_seconds=np.repeat(ops.host_seconds / times, times),
            flops=np.repeat(ops.flops / times, times),
            moved_bytes=np.repeat(ops.moved_bytes // times, times),
            fill=np.repeat(ops.fill, times),
            scratch_bytes=np.zeros(seconds.size, dtype=np.int64),
            reads=nothing,
            writes=nothing,
        ),
    )
    shorter = min(1.0, alone / bare.seconds)
    gaps = bare.ops.host_seconds * shorter
    gaps[0] += alone - bare.seconds * shorter
    return replace(bare, ops=replace(bare.ops, seconds=seconds * shorter, host_seconds=gaps))


def _kernels(trace: Trace) -> tuple[Integers, Flags]:
    """The number of kernels of each op, and which kernels belong to a recurrent layer, which is one estimated op."""
    times = np.ones(len(trace.ops), dtype=np.int64)
    for op in range(len(trace.ops)):
        if "rnn_layer" in trace.ops.name[op]:
            times[op] = networks.WORDS_AT_ONCE * KERNELS_PER_STEP
    return times, np.repeat(times > 1, times)


def _one_byte(ops: int) -> Tensors:
    label = Labels.of(["byte"])
    born, died, size = np.array([-1]), np.array([ops]), np.array([1])
    kind = np.array([Kind.PARAMETER], dtype=np.uint8)
    return Tensors(bytes=size, kind=kind, label=label, layout=label, born=born, died=died, saved=np.array([False]))


def predicted(pair: Sequence[Trace], contention: Contention) -> tuple[float, float]:
    """The rates of two jobs beside each other in the simulator, as shares of their rates alone."""
    submissions = [Submission(Job(name=str(number), trace=trace)) for number, trace in enumerate(pair)]
    until_ns = int(1e9 * ITERATIONS * max(trace.seconds for trace in pair))
    outcome = simulate(submissions, V100, V100.memory_bytes, Mps(), contention=contention, until_ns=until_ns)
    rates = []
    for number, trace in enumerate(pair):
        ends = [
            entry.at_ns for entry in outcome.entries if isinstance(entry, IterationEnded) and entry.job == str(number)
        ]
        if len(ends) < 2:
            raise ValueError(f"{trace.name} ended fewer than two of its iterations; simulate more than {ITERATIONS}")
        rates.append((len(ends) - 1) * trace.seconds * 1e9 / (ends[-1] - ends[0]))
    return rates[0], rates[1]
