import pytest

from neaptide.core.traces.profile import Profile
from neaptide.policies.parts.plans import best_plan, throughput, time_together
from views import job, tide

MS = 1_000_000
TALL = tide(20, 60, 100, 60, 20, step_ns=MS)
LOW = tide(*[40] * 6, step_ns=MS)  # less memory, 20% more time


def best(budget: int, *others: Profile, plan: int = 0) -> int | None:
    return best_plan(job("a", TALL, LOW, plan=plan), others, budget, in_flight=16)


def test_alone_the_fastest_plan_is_the_best() -> None:
    assert best(100) == 0


def test_a_plan_that_needs_less_is_taken_when_the_faster_one_does_not_fit() -> None:
    assert best(99) == 1
    assert best(39) is None


def test_beside_another_job_a_lower_curve_is_worth_some_time() -> None:
    other = tide(60, 60, 60, 60, 60, step_ns=MS)
    assert best(100, other) == 1  # together all the time, against two fifths of it
    assert best(160, other) == 0  # with room for both there is no reason


def test_a_lower_curve_is_not_worth_any_amount_of_time() -> None:
    other, slow = tide(60, 60, 60, 60, 60, step_ns=MS), tide(*[40] * 15, step_ns=MS)
    assert best_plan(job("a", TALL, slow), [other], 100, in_flight=16) == 0


def test_running_together_on_a_full_device_is_worth_nothing() -> None:
    plans = [tide(20, 60, 100, 60, 20, step_ns=MS, utilisation=1.0), tide(*[40] * 6, step_ns=MS, utilisation=1.0)]
    other = tide(60, 60, 60, 60, 60, step_ns=MS, utilisation=1.0)
    assert best_plan(job("a", *plans), [other], 100, in_flight=16) == 0


def test_the_other_jobs_persistent_bytes_leave_less_for_the_tides() -> None:
    other = tide(60, 60, 60, 60, 60, step_ns=MS, persistent=60)
    assert best(220, other) == 0
    assert best(160, other) == 1


def test_a_plan_stays_unless_another_is_clearly_better() -> None:
    almost = tide(*[40] * 6, step_ns=MS * 49 // 60)  # 2% faster than TALL
    assert best_plan(job("a", TALL, almost, plan=0), [], 200, in_flight=16) == 0
    assert best_plan(job("a", TALL, almost, plan=1), [], 200, in_flight=16) == 1


def test_the_time_together_is_the_share_of_places_at_which_both_fit() -> None:
    step = tide(10, 30, step_ns=MS)
    assert time_together(step, step, 60, 16) == 1
    assert time_together(step, step, 59, 16) == pytest.approx(3 / 4)
    assert time_together(step, step, 39, 16) == pytest.approx(1 / 4)
    assert time_together(step, step, 19, 16) == 0


def test_throughput_is_between_taking_turns_and_running_together() -> None:
    half, full = tide(10, 30, step_ns=MS), tide(10, 30, step_ns=MS, utilisation=1.0)
    assert throughput([half], 60, 16) == 1
    assert throughput([half, half], 60, 16) == 2
    assert throughput([half, half], 59, 16) == pytest.approx(1.75)
    assert throughput([half, half], 19, 16) == 1
    assert throughput([full, full], 60, 16) == 1
