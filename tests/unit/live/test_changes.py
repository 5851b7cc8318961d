"""When a job's iterations have changed for good."""

from __future__ import annotations

from neaptide.live.job.changes import Changes


def changes() -> Changes:
    made = Changes()
    made.measured(rest_bytes=100, peak_bytes=1000)
    return made


def count(made: Changes, rest_bytes: int, peak_bytes: int, iterations: int) -> list[int]:
    """The iterations after which a change was seen."""
    return [index for index in range(1, iterations + 1) if made.have_come(rest_bytes, peak_bytes)]


def test_iterations_of_other_sizes_now_and_then_are_no_change() -> None:
    made = changes()
    seen = [made.have_come(100 if index % 5 else 700, 1000 if index % 3 else 400) for index in range(500)]
    assert not any(seen)


def test_a_window_of_iterations_that_hold_more_at_rest_is_a_change() -> None:
    assert count(changes(), 600, 1000, 32) == [32]


def test_a_window_of_iterations_that_all_need_less_is_a_change() -> None:
    assert count(changes(), 100, 500, 32) == [32]


def test_a_job_that_changes_all_the_time_is_measured_less_and_less_often() -> None:
    made, seen = changes(), 0
    for index in range(2000):
        if made.have_come(100, 1000 + 10 * index):
            seen += 1
            made.measured(100, 1000 + 10 * index)
    assert 2 <= seen <= 6
