"""How fast is the simulator: ops per second, a run of 100 jobs, and the cost of a policy's decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from time import perf_counter

import numpy as np
from benchmarks._salus_jobs import salus_jobs

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace
from neaptide.core.units import GIB, MIB
from neaptide.reporting.terminal.bench import Figure
from neaptide.simulation import Outcome, Submission, simulate
from neaptide.simulation.workloads import regular_requests

DEVICE = find_device("V100-16GB")
OPS = 2000  # per iteration
SECONDS = 0.2
KERNELS = 800_000  # simulated for each figure of speed


class Everything(Policy):
    """Starts every job that can start, so that the engine's own cost is measured."""

    name = "everything"

    def decide(self, view: View) -> Sequence[Action]:
        admitted = [Admit(job.name) for job in view.queued]
        return [*admitted, *(Start(job.name) for job in view.startable), *(Start(each.job) for each in admitted)]


def figures() -> Iterator[Figure]:
    """Time the engine, then the policies on it."""
    _run(_pool(1, 1), GIB)  # builds the native library
    yield from _speed()
    yield from _hundred_jobs()
    yield from _decisions()


def tide(ops: int, seconds: float, persistent: int, ephemeral: int, fill: float, inference: bool = False) -> Trace:
    """An iteration whose memory rises in its first half and falls in its second."""
    half = max(ops // 2, 1)
    each = np.full(ops, seconds / ops)
    phase = np.full(ops, Phase.BACKWARD, dtype=np.uint8)
    phase[:half] = Phase.FORWARD
    if inference:
        phase[:] = Phase.INFERENCE
    born = np.concatenate((np.arange(half), [-1]))
    died = np.concatenate((ops - 1 - np.arange(half), [ops]))
    names = Labels.of(["op"] * ops)
    nothing = Lists.of([()] * ops)
    odd = np.arange(ops) % 2
    return Trace(
        "tide",
        DEVICE.name,
        1,
        True,
        True,
        "",
        Ops(
            name=names,
            module=names,
            phase=phase,
            seconds=each,
            host_seconds=np.full(ops, 8e-6),
            flops=each * DEVICE.matrix_flops * fill * np.where(odd, 0.7, 0.1),
            moved_bytes=(each * DEVICE.bandwidth * fill * np.where(odd, 0.1, 0.8)).astype(np.int64),
            fill=np.full(ops, fill),
            scratch_bytes=np.zeros(ops, dtype=np.int64),
            reads=nothing,
            writes=nothing,
        ),
        Tensors(
            bytes=np.append(np.full(half, ephemeral // half), persistent),
            kind=np.append(np.full(half, Kind.ACTIVATION), Kind.PARAMETER).astype(np.uint8),
            label=Labels.of(["tensor"] * (half + 1)),
            layout=Labels.of(["float32[1]"] * (half + 1)),
            born=born,
            died=died,
            saved=np.zeros(half + 1, dtype=np.bool_),
        ),
    )


def _pool(count: int, iterations: int, ops: int = OPS) -> list[Submission]:
    """Jobs of two kinds: one fills the device, one does not."""
    kinds = [tide(ops, SECONDS, 100 * MIB, 900 * MIB, 1.0), tide(ops, SECONDS, 50 * MIB, 400 * MIB, 0.3)]
    return [Submission(Job(name=f"job{i}", trace=kinds[i % 2], iterations=iterations)) for i in range(count)]


def _run(jobs: Sequence[Submission], budget: int, policy: Policy | None = None) -> tuple[Outcome, float]:
    started = perf_counter()
    outcome = simulate(jobs, DEVICE, budget, policy or Everything())
    return outcome, perf_counter() - started


def _speed() -> Iterator[Figure]:
    found = {}
    for count in (1, 2, 4, 16, 64):
        jobs = _pool(count, max(KERNELS // OPS // count, 1))
        rates = []
        for _ in range(3):
            outcome, seconds = _run(jobs, (1 + count) * 600 * MIB)
            rates.append(outcome.op_events / seconds)
        found[count] = median(rates)
        goal = ">= 1000000" if count <= 16 else ""
        yield Figure(f"kernels with {count} jobs at once", found[count], "ops/s", goal)
    yield Figure("a kernel with 64 jobs at once against one with 2", found[2] / found[64], "x")


def _policies() -> list[Policy]:
    from neaptide.policies import POLICIES

    return [POLICIES.make(name) for name in POLICIES]


def _hundred_jobs() -> Iterator[Figure]:
    """The jobs of the Salus trace. An iteration has 1,500 ops and takes 0.2 s; the duration sets their number."""
    wanted = salus_jobs(seed=0)
    kinds = {
        batch: tide(1500, SECONDS, (50 + batch) * MIB, (1000 + 40 * batch) * MIB, 0.6)
        for batch in {job.batch for job in wanted}
    }
    # A tenth of the durations: 18,000 seconds would be 135 million kernels.
    jobs = [
        Submission(
            Job(name=f"{i}-{job.model}", trace=kinds[job.batch], iterations=max(round(job.solo_seconds / 2), 1)),
            job.arrives_ns // 10,
        )
        for i, job in enumerate(wanted)
    ]
    for policy in _policies():
        if policy.name in ("fifo", "temporal", "salus-pack", "salus-srtf", "zico", "neaptide"):
            outcome, seconds = _run(jobs, 15 * GIB, policy)
            kernels = f"{outcome.op_events / 1e6:.1f} million kernels"
            yield Figure(f"100 jobs at a tenth of their length under {policy.name}, {kernels}", seconds, "s")


def _decisions() -> Iterator[Figure]:
    """Mean processor time in policy code per event, for training jobs and one inference job."""
    for policy in _policies():
        for count in (2, 8, 16, 64):
            jobs = _pool(count - 1, 40, ops=200)
            serving = Job(
                name="serving",
                trace=tide(50, 0.01, 20 * MIB, 30 * MIB, 0.3, inference=True),
                kind=JobKind.INFERENCE,
                deadline_seconds=0.5,
            )
            jobs.append(Submission(serving, 0, regular_requests(20, 20.0)))
            outcome, _ = _run(jobs, 11 * GIB, policy)
            goal = "<= 100" if count == 16 else ""
            name = f"{policy.name}: a decision with {count} jobs"
            yield Figure(name, 1e6 * outcome.decision_seconds / outcome.decisions, "us", goal)
