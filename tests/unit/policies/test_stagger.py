from neaptide.core.control.actions import CapInFlight
from neaptide.core.control.job import JobState
from neaptide.core.traces.curve import MemoryCurve
from neaptide.policies.parts.stagger import (
    RunningCurves,
    Stagger,
    capped_curve,
    caps,
    fits_now,
    highest_to_come,
    remaining_curve,
)
from views import job, tide

RUNNING = JobState.RUNNING
MS = 1_000_000
TIDE = tide(20, 40, 60, 40, 20, step_ns=MS)
STRICT = Stagger(in_flight=16, early=0, behind=2)


def curve(*levels: int) -> MemoryCurve:
    return MemoryCurve.of_steps([10] * len(levels), list(levels))


def test_the_remaining_curve_sums_the_rest_of_each_running_iteration() -> None:
    running = [job("a", TIDE, state=RUNNING, position_ns=3 * MS), job("b", TIDE, state=RUNNING, position_ns=4 * MS)]
    left = remaining_curve(running, in_flight=16)
    assert left is not None
    assert left.edges_ns.tolist() == [0, MS, 2 * MS]
    assert left.bytes.tolist() == [60, 20]


def test_nothing_remains_when_all_iterations_are_at_their_ends() -> None:
    assert remaining_curve([], in_flight=16) is None
    assert remaining_curve([job("a", TIDE, state=RUNNING, position_ns=5 * MS)], in_flight=16) is None


def test_the_highest_to_come_never_rises() -> None:
    assert highest_to_come(curve(2, 6, 3)).bytes.tolist() == [6, 6, 3]
    assert highest_to_come(curve(2, 6, 3)).edges_ns.tolist() == [0, 10, 20, 30]


def test_a_curve_fits_now_if_it_does_at_every_step_of_both() -> None:
    assert fits_now(curve(5), None, 5)
    assert not fits_now(curve(6), None, 5)
    assert fits_now(curve(1, 4), curve(9, 6, 9), 10)
    assert not fits_now(curve(1, 4), curve(9, 7, 9), 10)
    assert not fits_now(curve(1, 1, 1), curve(9, 9, 10), 10)
    assert fits_now(curve(1, 1), curve(9, 9, 10), 10)


def test_a_coarsened_curve_is_never_below_the_exact_curve() -> None:
    ragged = tide(*[(index * 37) % 100 for index in range(200)], step_ns=10)
    coarse = capped_curve(ragged, 16)
    assert len(coarse) <= 64
    assert coarse.peak == ragged.curve.peak
    times = ragged.curve.edges_ns[:-1]
    assert (coarse.at(times) >= ragged.curve.at(times)).all()


def test_jobs_start_in_their_order_while_they_fit() -> None:
    jobs = [job(name, TIDE) for name in "abc"]
    starts, delay_ns = STRICT.plan(jobs, [], 120)
    assert [each.name for each in starts] == ["a", "b"]
    assert delay_ns == 3 * MS  # then both are past their peaks


def test_an_iteration_that_is_slowed_down_less_than_the_running_one_is_delayed_longer() -> None:
    running = job("running", TIDE, state=RUNNING, beside={"a": 2.0})
    assert STRICT.plan([job("a", TIDE)], [running], 80)[1] == 2 * MS
    # While the running one does a step the new one does two: at 20, 40, 60 after 0, 0.5 and 1 ms of the other's time.
    assert STRICT.plan([job("a", TIDE, beside={"running": 1.0})], [running], 80)[1] == 3 * MS
    equally = job("a", TIDE, beside={"running": 2.0})
    assert STRICT.plan([equally], [running], 80)[1] == 2 * MS


def test_room_before_the_peak_of_a_running_iteration_is_kept_for_it() -> None:
    running = job("running", TIDE, state=RUNNING)
    assert STRICT.plan([job("brief", tide(30, step_ns=MS))], [running], 89) == ([], 3 * MS)
    assert [each.name for each in STRICT.plan([job("brief", tide(30, step_ns=MS))], [running], 90)[0]] == ["brief"]


def test_only_a_few_jobs_behind_the_first_that_waits_are_tried() -> None:
    waiting = [job("first", TIDE)] + [job(str(index), tide(1, step_ns=MS)) for index in range(5)]
    running = [job("running", TIDE, state=RUNNING, position_ns=2 * MS)]
    starts, delay_ns = STRICT.plan(waiting, running, 79)
    assert [each.name for each in starts] == ["0", "1"]
    assert delay_ns == MS


def test_a_job_that_never_fits_delays_no_other_job() -> None:
    starts, delay_ns = STRICT.plan([job("never", tide(200)), job("fits", TIDE)], [], 100)
    assert [each.name for each in starts] == ["fits"]
    assert delay_ns is None


def test_a_job_that_may_not_run_beside_the_others_is_skipped() -> None:
    jobs = [job(name, TIDE) for name in "abc"]
    starts, delay_ns = STRICT.plan(jobs, [], 1000, lambda each, beside: each.name != "b" or not beside)
    assert [each.name for each in starts] == ["a", "c"]
    assert delay_ns is None


def test_kernels_in_flight_are_capped_while_the_peaks_do_not_fit_together() -> None:
    many, few = tide(60, step_ns=MS, kernels=1000), tide(60, step_ns=MS, kernels=50)
    free = [job("many", many), job("few", few)]
    capped = [job("many", many, in_flight=16), job("few", few, in_flight=3)]
    assert caps(free, 119, 16) == [CapInFlight("many", 16), CapInFlight("few", 3)]
    assert caps(capped, 119, 16) == []
    assert caps(capped, 120, 16) == [CapInFlight("many", None), CapInFlight("few", None)]
    assert caps(free, 120, 16) == []


def test_a_delay_shorter_than_the_share_early_of_the_iteration_is_ignored() -> None:
    running = [job("running", TIDE, state=RUNNING, position_ns=2 * MS)]  # the next iteration fits after 1 of its 5 ms
    assert Stagger(in_flight=16, early=0.1, behind=2).plan([job("a", TIDE)], running, 79) == ([], MS // 2)
    early = Stagger(in_flight=16, early=0.2, behind=2)
    assert [each.name for each in early.plan([job("a", TIDE)], running, 79)[0]] == ["a"]


def test_peaks_that_fit_together_need_no_sum_and_others_may_still_fit() -> None:
    under = RunningCurves([job("a", TIDE, state=RUNNING, position_ns=3 * MS)], in_flight=16)
    assert under.leaves(60, 100)
    assert not under.leaves(60, 99)
    under.start(job("b", TIDE))
    assert not under.leaves(1, 100)
    assert under.curve is not None
    assert under.curve.bytes.tolist() == [60, 60, 60, 40, 20]


def test_beside_a_latency_critical_job_others_launch_little_ahead() -> None:
    trains = job("train", tide(1, 1, step_ns=MS, kernels=4))
    assert caps([trains, job("serve", TIDE, deadline_ns=MS)], 200, 16) == []
    critical = job("serve", TIDE, deadline_ns=MS, latency_critical=True)
    assert caps([trains, critical], 200, 16) == [CapInFlight("train", 4)]  # 2 ms, at half a millisecond each


def test_where_closed_gates_hold_launched_kernels_a_latency_critical_job_bounds_nobodys_launches() -> None:
    trains = job("train", tide(1, 1, step_ns=MS, kernels=4), in_flight=4)
    critical = job("serve", TIDE, deadline_ns=MS, latency_critical=True)
    assert caps([trains, critical], 200, 16, holds_launched=True) == [CapInFlight("train", None)]
    assert caps([trains, critical], 5, 16, holds_launched=True) == [CapInFlight("train", 2), CapInFlight("serve", 2)]
