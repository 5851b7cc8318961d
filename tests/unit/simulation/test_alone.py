"""A job alone on the device."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace, training_trace
from neaptide.core.control.actions import Action, CapInFlight, WakeAt
from neaptide.core.control.events import IterationEnded, JobArrived, JobEnded, PhaseEnded
from neaptide.core.control.job import Job
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.leases import held_ahead
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Phase, Trace
from neaptide.simulation import Outcome, Submission, simulate
from simple_policies import Everything, Told
from tides import MIB, tide

DEVICE = find_device("V100-16GB")


def run(trace: Trace, iterations: int = 1, budget: int = 1 << 40, cap: int | None = 10**6) -> Outcome:
    def tell(view: View) -> list[Action]:
        return [CapInFlight(job.name, cap) for job in view.jobs if job.in_flight != cap]

    return simulate([Submission(Job(name="a", trace=trace, iterations=iterations))], DEVICE, budget, Told(tell))


@pytest.mark.parametrize(
    "trace",
    [
        training_trace(),
        training_trace(asynchronous=False),
        tide(ops=333, seconds=0.0123456, host_seconds=1e-6),
        tide(ops=300, seconds=0.001, host_seconds=7.77e-6),  # the device waits for the host
    ],
)
def test_an_iteration_takes_its_solo_time(trace: Trace) -> None:
    outcome = run(trace, iterations=3)
    took = [entry.took_ns for entry in outcome.entries if isinstance(entry, IterationEnded)]
    assert len(took) == 3
    for each in took:
        assert abs(each - Profile.of(trace).solo_ns) <= len(trace.ops)
        assert each == pytest.approx(trace.seconds * 1e9, abs=2)  # rounding does not add up
    assert outcome.op_events == 3 * len(trace.ops)


def test_the_log_has_the_jobs_forward_passes_iterations_and_end() -> None:
    events = [entry for entry in run(training_trace(), iterations=2).entries if hasattr(entry, "job")]
    assert events == [
        JobArrived(0, "a"),
        PhaseEnded(3_010_000, "a", Phase.FORWARD),
        IterationEnded(8_010_000, "a", 8_010_000),
        PhaseEnded(11_020_000, "a", Phase.FORWARD),
        IterationEnded(16_020_000, "a", 8_010_000),
        JobEnded(16_020_000, "a"),
    ]


def test_launching_stops_at_the_cap_and_costs_time_when_the_host_then_falls_behind() -> None:
    ops = [Op(seconds=1.0)] + [Op(seconds=0.0, host_seconds=0.1) for _ in range(5)]
    trace = make_trace(ops, asynchronous=True)
    assert run(trace, cap=5).end_ns == 1_000_000_000  # all launched behind the first op
    assert run(trace, cap=2).end_ns == 1_200_000_000  # two are; the third follows at 1 s, then one every 0.1 s


@pytest.mark.parametrize("cap", [1, 4, 16, 1000])
def test_memory_is_taken_at_launch_and_given_back_when_the_device_has_passed(cap: int) -> None:
    trace = tide(ops=60, seconds=0.06, persistent=10, ephemeral=24_000, host_seconds=1e-9)
    series = run(trace, cap=cap).memory["a"]
    # While op i runs (it began 1 ms * i after the first) the kernels ahead of it are launched.
    expected = held_ahead(trace.held_bytes, cap)
    for op in range(60):
        middle = op * 1_000_000 + 500_000
        assert series.held_bytes[series.at_ns.searchsorted(middle, side="right") - 1] == expected[op]
    if cap == 1000:
        assert expected[0] == trace.peak_bytes > trace.held_bytes[0]  # early allocation shows


def test_between_two_ops_only_tensors_that_live_on_are_held() -> None:
    tensors = [Tensor(bytes=100, born=0, died=0), Tensor(bytes=7, born=0, died=1), Tensor(bytes=1, born=-1, died=2)]
    trace = make_trace([Op(seconds=1.0, scratch_bytes=50), Op(seconds=1.0, host_seconds=1.0)], tensors)
    series = run(trace).memory["a"]
    assert list(zip(series.at_ns.tolist(), series.held_bytes.tolist(), strict=True)) == [
        (0, 158),
        (1_000_000_000, 8),
        (3_000_000_000, 0),
    ]


def test_the_position_says_how_far_the_device_is_on_the_curve() -> None:
    seen: list[tuple[int, int]] = []

    def look(view: View) -> list[Action]:
        seen.extend((view.now_ns, job.position_ns) for job in view.running)
        return [WakeAt(view.now_ns + 250_000_000)]

    trace = make_trace([Op(seconds=1.0, host_seconds=0.5), Op(seconds=0.5)], asynchronous=True)
    simulate([Submission(Job(name="a", trace=trace, iterations=1))], DEVICE, MIB, Told(look))
    assert [at for at, _ in seen] == [250_000_000 * i for i in range(1, 8)]
    for at, position in seen:
        assert abs(at - position) <= 2


def test_a_long_run_keeps_a_short_series_with_the_exact_peak() -> None:
    trace = tide(ops=50, seconds=0.001, persistent=1000, ephemeral=123_456_789, fill=0.0)
    spike = make_trace([Op(seconds=3e-6, fill=0.0)], [Tensor(bytes=10**9, born=0, died=0)])
    submissions = [
        Submission(Job(name="a", trace=trace, iterations=5000)),
        Submission(Job(name="spike", trace=spike, iterations=1), 1_234_567_890),
    ]
    outcome = simulate(submissions, DEVICE, 1 << 40, Everything())
    for series in (outcome.total, outcome.memory["a"]):
        assert 2000 < series.at_ns.size <= 16_400
        assert (series.at_ns[1:] > series.at_ns[:-1]).all()
        assert (series.held_bytes[1:] != series.held_bytes[:-1]).all()
        assert series.held_bytes[-1] == 0
    assert outcome.memory["a"].peak_bytes == trace.peak_bytes
    assert outcome.total.peak_bytes == outcome.peak_bytes > 10**9
    assert abs(int(outcome.total.at_ns[outcome.total.held_bytes.argmax()]) - 1_234_567_890) <= 3000


def test_a_job_that_has_ended_has_given_everything_back() -> None:
    outcome = simulate([Submission(Job(name="a", trace=tide(), iterations=2))], DEVICE, 1 << 40, Everything())
    assert outcome.memory["a"].held_bytes[-1] == 0
    assert outcome.total.held_bytes[-1] == 0
    assert outcome.over_budget_bytes == 0
