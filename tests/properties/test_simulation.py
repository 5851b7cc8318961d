"""The simulator against a slow version of its rules, and what must hold for any traces and policies."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import slow_engine
from builders import Op, Tensor, make_trace
from neaptide.core.control.actions import CapInFlight
from neaptide.core.control.controller import Decided, Refused
from neaptide.core.control.events import IterationEnded, JobEnded, JobFailed
from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.simulation import Contention, Submission, simulate
from simple_policies import Everything, Malicious, Told

DEVICE = find_device("V100-16GB")
MICRO = 1e-6

_amount = st.floats(0, 1)
_contentions = st.builds(
    Contention,
    compute=st.floats(0.5, 1.5),
    bandwidth=st.floats(0.5, 1.5),
    fill=st.floats(0.5, 2),
    wave_seconds=st.sampled_from([0.0, 2e-6, 100e-6]),
)


@st.composite
def small_traces(draw: st.DrawFn) -> Trace:
    """A few ops of some microseconds, some of no length, with tensors of any lifetime."""
    n = draw(st.integers(1, 6))
    tensors = []
    for _ in range(draw(st.integers(0, 5))):
        born = draw(st.integers(-1, n - 1))
        tensors.append(Tensor(bytes=draw(st.integers(0, 60)), born=born, died=draw(st.integers(born, n))))
    ops = []
    for _ in range(n):
        seconds = MICRO * draw(st.sampled_from([0.0, 0.5, 3.0, 10.0, 3.3333]))
        ops.append(
            Op(
                phase=draw(st.sampled_from([Phase.FORWARD, Phase.BACKWARD])),
                seconds=seconds,
                host_seconds=MICRO * draw(st.sampled_from([0.0, 0.5, 4.0])),
                flops=seconds * DEVICE.matrix_flops * draw(_amount),
                moved_bytes=int(seconds * DEVICE.bandwidth * draw(_amount)),
                fill=draw(_amount),
                scratch_bytes=draw(st.sampled_from([0, 0, 15])),
            )
        )
    return make_trace(ops, tensors, asynchronous=draw(st.booleans()))


@given(
    st.lists(st.tuples(small_traces(), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(0, 120),
    st.integers(1, 4),
    _contentions,
)
@settings(max_examples=300)
def test_the_engine_does_what_its_rules_say(
    jobs: list[tuple[Trace, int]], room: int, in_flight: int, contention: Contention
) -> None:
    persistent = sum(trace.persistent_bytes for trace, _ in jobs)
    budget = max(persistent + max(max(trace.peak_bytes - trace.persistent_bytes, 0) for trace, _ in jobs) + room, 1)
    submissions = [Submission(Job(name=str(i), trace=trace, iterations=n)) for i, (trace, n) in enumerate(jobs)]
    policy = Told(lambda view: [CapInFlight(job.name, in_flight) for job in view.jobs if job.in_flight is None])
    outcome = simulate(submissions, DEVICE, budget, policy, contention=contention)
    ends: list[list[int]] = [[] for _ in jobs]
    for entry in outcome.entries:
        if isinstance(entry, IterationEnded):
            ends[int(entry.job)].append(entry.at_ns)
    expected_ends, expected_peak = slow_engine.run_all(jobs, DEVICE, budget, contention, in_flight)
    assert ends == expected_ends
    assert outcome.peak_bytes == max(expected_peak, persistent)


@st.composite
def submissions(draw: st.DrawFn) -> list[Submission]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        serves = draw(st.integers(0, 4)) == 0
        arrives_ns = draw(st.integers(0, 30_000))
        job = Job(
            name=str(number),
            trace=draw(small_traces()),
            alternatives=tuple(draw(st.lists(small_traces(), max_size=2))),
            kind=JobKind.INFERENCE if serves else JobKind.TRAINING,
            iterations=None if serves else draw(st.integers(1, 4)),
        )
        offsets = draw(st.lists(st.integers(0, 50_000), min_size=1, max_size=4)) if serves else []
        found.append(Submission(job, arrives_ns, tuple(arrives_ns + offset for offset in offsets)))
    return found


def _least_budget(jobs: list[Submission]) -> int:
    """The largest need of any one job, so that each can be admitted alone."""
    return max(1, *(trace.peak_bytes for each in jobs for trace in (each.job.trace, *each.job.alternatives)))


@given(submissions(), st.integers(0, 150), st.integers(0, 2**32), st.booleans(), _contentions)
@settings(max_examples=120)
def test_under_any_policy_the_budget_holds_every_job_ends_and_all_memory_is_given_back(
    jobs: list[Submission], room: int, seed: int, malicious: bool, contention: Contention
) -> None:
    budget = _least_budget(jobs) + room
    policy = Malicious(seed, wake_ns=20_000) if malicious else Everything()
    outcome = simulate(jobs, DEVICE, budget, policy, contention=contention)
    assert outcome.over_budget_bytes == 0
    assert outcome.peak_bytes == outcome.total.peak_bytes <= budget
    assert {each.job for each in outcome.entries if isinstance(each, JobEnded)} == {each.job.name for each in jobs}
    assert not outcome.total.held_bytes.size or outcome.total.held_bytes[-1] == 0
    times = [each.at_ns for each in outcome.entries]
    assert times == sorted(times)


@given(submissions(), st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 90_000), st.floats(0.2, 2)), max_size=3))
@settings(max_examples=120)
def test_a_budget_that_falls_and_rises_again_loses_no_job(
    jobs: list[Submission], seed: int, changes: list[tuple[int, float]]
) -> None:
    budget = _least_budget(jobs)
    changed = [(at_ns, max(int(share * budget), 1)) for at_ns, share in changes]
    policy = Malicious(seed, wake_ns=20_000) if seed % 2 else Everything()
    outcome = simulate(jobs, DEVICE, budget, policy, budget_changes=[*changed, (100_000, budget)])
    assert {each.job for each in outcome.entries if isinstance(each, JobEnded)} == {each.job.name for each in jobs}
    assert not any(isinstance(each, JobFailed) for each in outcome.entries)


@given(submissions(), st.integers(0, 2**32))
@settings(max_examples=40)
def test_equal_inputs_give_equal_logs(jobs: list[Submission], seed: int) -> None:
    budget = _least_budget(jobs)
    first, second = (simulate(jobs, DEVICE, budget, Malicious(seed, wake_ns=20_000)) for _ in range(2))
    assert msgspec.json.encode(first.entries) == msgspec.json.encode(second.entries)
    assert any(isinstance(each, Decided | Refused) for each in first.entries)
    for name, series in first.memory.items():
        assert (series.at_ns == second.memory[name].at_ns).all()
        assert (series.held_bytes == second.memory[name].held_bytes).all()
