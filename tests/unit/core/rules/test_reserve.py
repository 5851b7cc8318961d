import random

from neaptide.core.rules.reserve import FIRST_RESERVE, next_reserve
from neaptide.core.rules.work import expected_ns


def test_a_late_answer_makes_the_reserve_larger_and_one_in_time_smaller() -> None:
    assert next_reserve(0.3, 101, 100, 0.99) > 0.3
    assert next_reserve(0.3, 90, 100, 0.99) > 0.3  # nearly late
    assert next_reserve(0.3, 50, 100, 0.99) < 0.3


def test_the_reserve_stands_still_when_as_many_answers_are_late_as_the_job_allows() -> None:
    for quantile, count in ((0.99, 100), (0.9, 10)):
        reserve = next_reserve(FIRST_RESERVE, 100, 100, quantile)
        for _ in range(count - 1):
            reserve = next_reserve(reserve, 0, 100, quantile)
        assert abs(reserve - FIRST_RESERVE) < 1e-9


def test_the_reserve_is_never_the_whole_deadline_and_never_nothing() -> None:
    much = little = FIRST_RESERVE
    for _ in range(1000):
        much, little = next_reserve(much, 1000, 100, 0.99), next_reserve(little, 0, 100, 0.99)
    assert 0 < little < FIRST_RESERVE < much < 1


def test_the_reserve_finds_the_one_with_which_the_deadlines_are_kept() -> None:
    """Answers come within the deadline less the reserve, and at times later by up to a half of the deadline."""
    chance, reserve, late = random.Random(1), FIRST_RESERVE, 0
    for index in range(20_000):
        took = 100 * (1 - reserve) + (chance.uniform(0, 50) if chance.random() < 0.1 else 0)
        late += index >= 10_000 and took > 100
        reserve = next_reserve(reserve, round(took), 100, 0.99)
    assert late / 10_000 <= 0.01


def test_a_request_may_take_as_long_as_nine_of_ten_before_it() -> None:
    assert expected_ns(100, []) == 100
    assert expected_ns(100, [2.0]) == 200
    assert expected_ns(100, [1.0] * 9 + [3.0]) == 300
    assert expected_ns(100, [1.0] * 19 + [3.0]) == 100
