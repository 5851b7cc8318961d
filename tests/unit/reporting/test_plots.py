"""Where times and amounts are in the drawings of a report."""

from __future__ import annotations

from dataclasses import replace

from neaptide.core.control.events import BudgetChanged, JobEvicted
from neaptide.core.units import GIB
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.figures.windows import Window, whole_iterations
from neaptide.reporting.logs.comparison import Row
from neaptide.reporting.logs.live_run import LiveRun, Measuring
from neaptide.reporting.logs.metrics import metrics_of
from neaptide.reporting.pages.lanes import Label, lanes
from neaptide.reporting.pages.plots import Scale, memory_plot
from outcomes import ENTRIES, JOBS, MS, outcome

NAMES = ("a", "b")
WHOLE = Scale(Window(0, 20 * MS), 10 * GIB, 100)
LATE = Scale(Window(5 * MS, 15 * MS), 10 * GIB, 100)  # the second and third quarter


def live(policy: str = "neaptide") -> LiveRun:
    shown = outcome()
    row = Row(policy, metrics_of(ENTRIES, JOBS, 20 * MS), 1.0, 5 * GIB, 0)
    results = (
        JobResult("a", 0, 0.010, "a.log", began_seconds=0.0),
        JobResult("b", 0, 0.015, "b.log", began_seconds=0.005),
    )
    return LiveRun("two", row, 5 * GIB, ENTRIES, shown.memory, shown.total, 20 * MS, results)


def test_a_time_is_drawn_at_its_share_of_the_window() -> None:
    assert [WHOLE.x(at_ns) for at_ns in (0, 5 * MS, 20 * MS)] == [0, 250, 1000]
    assert [LATE.x(at_ns) for at_ns in (5 * MS, 10 * MS, 15 * MS)] == [0, 500, 1000]
    assert [LATE.percent(at_ns) for at_ns in (5 * MS, 15 * MS)] == [0, 100]


def test_an_amount_is_drawn_at_its_share_of_the_height_from_below() -> None:
    assert [WHOLE.y(amount) for amount in (0, 5 * GIB, 10 * GIB)] == [100, 50, 0]


def test_areas_begin_and_end_where_the_memory_does() -> None:
    first, second = memory_plot(live(), NAMES, WHOLE, "").areas
    assert first.path == "M0.0,70.0H500.0V100.0H1000.0L1000.0,100.0H0.0Z"  # 3 GiB until 10 ms
    # 2 GiB from 5 ms on, above the other job's until 10 ms.
    assert second.path == "M0.0,70.0H250.0V50.0H500.0V80.0H1000.0L1000.0,100.0H500.0V70.0H0.0Z"


def test_a_close_up_draws_the_same_times_further_apart() -> None:
    first, _ = memory_plot(live(), NAMES, LATE, "").areas
    assert first.path == "M0.0,70.0H500.0V100.0H1000.0L1000.0,100.0H0.0Z"  # until 10 ms, the middle of this window


def test_the_budget_line_falls_when_the_budget_is_lowered() -> None:
    assert memory_plot(live(), NAMES, WHOLE, "").budget == "M0.0,50.0H400.0V60.0H1000.0"  # 5 GiB, 4 GiB from 8 ms on


def test_the_budget_line_is_the_users_and_not_what_policies_are_told() -> None:
    run = replace(live(), entries=(BudgetChanged(10 * MS, GIB, 5 * GIB), BudgetChanged(15 * MS, GIB, 4 * GIB)))
    assert memory_plot(run, NAMES, WHOLE, "").budget == "M0.0,50.0H750.0V60.0H1000.0"


def test_time_ticks_are_at_their_times_and_count_from_the_start_of_the_window() -> None:
    ticks = memory_plot(live(), NAMES, WHOLE, "").time_ticks
    assert [(tick.place, tick.words) for tick in ticks[:3]] == [(0, "0"), (10, "2"), (20, "4")]
    shown = memory_plot(live(), NAMES, LATE, "")
    assert [(tick.place, tick.words) for tick in shown.time_ticks[:2]] == [(0, "0"), (10, "1")]
    assert shown.time_unit == "ms"


def test_memory_ticks_are_at_their_amounts() -> None:
    ticks = memory_plot(live(), NAMES, WHOLE, "").memory_ticks
    assert [(tick.place, tick.words) for tick in ticks] == [
        (100, "0"),
        (75, "2.5 GiB"),
        (50, "5 GiB"),
        (25, "7.5 GiB"),
        (0, "10 GiB"),
    ]


def test_a_lane_shows_when_a_job_waits_and_iterates_and_where_it_stalls() -> None:
    first, second = lanes(live(), NAMES, WHOLE)
    assert [(piece.look, piece.x, piece.width) for piece in first.pieces] == [
        ("process", 0, 500),
        ("iteration", 0, 500),
    ]
    assert first.stalls == (300,)  # at 6 ms
    assert [(label.place, label.words) for label in first.labels] == [(30, "1 stall")]
    assert [(piece.look, piece.x, piece.width) for piece in second.pieces] == [
        ("process", 250, 750),
        ("waiting", 250, 750),
    ]


def test_a_lane_ends_with_the_window() -> None:
    _, second = lanes(live(), NAMES, LATE)
    assert [(piece.look, piece.x, piece.width) for piece in second.pieces] == [
        ("process", 0, 1000),
        ("waiting", 0, 1000),
    ]
    first, _ = lanes(live(), NAMES, LATE)
    assert [(piece.x, piece.width) for piece in first.pieces] == [(0, 500), (0, 500)]


def test_a_lane_is_labelled_where_measuring_begins_and_ends_and_where_a_job_is_evicted() -> None:
    run = live()
    run = replace(
        run,
        measuring={"b": Measuring(1 * MS, 5 * MS, 4, 1 * MS)},
        entries=(*run.entries, JobEvicted(15 * MS, "b"), JobEvicted(15 * MS + 1, "b")),
    )
    _, second = lanes(run, NAMES, WHOLE)
    assert [(label.place, label.words) for label in second.labels] == [
        (5, "measuring"),
        (25, "arrives"),
        (75, "evicted"),
    ]
    assert [(piece.x, piece.width) for piece in second.pieces if piece.look == "measuring"] == [(50, 200)]


def labels_of(*evictions_ms: float) -> tuple[list[Label], list[Label]]:
    """The labels of a job that is evicted at these times, on a wide page and on a narrow one."""
    run = replace(
        live(),
        measuring={"b": Measuring(1 * MS, 4 * MS, 4, 1 * MS)},
        entries=tuple(JobEvicted(round(at * MS), "b") for at in evictions_ms),
    )
    _, second = lanes(run, NAMES, WHOLE)
    return list(second.labels), list(second.labels_if_narrow)


def test_labels_that_would_overlap_are_one_label() -> None:
    wide, narrow = labels_of(5, 6)
    assert wide == [Label(5, "measuring"), Label(20, "arrives, evicted")]
    assert narrow == [Label(5, "measuring, arrives, evicted")]


def test_labels_that_would_pass_the_right_edge_end_there() -> None:
    wide, narrow = labels_of(18, 19.5)
    assert wide == [Label(5, "measuring"), Label(20, "arrives"), Label(90, "evicted")]
    assert narrow == [Label(5, "measuring, arrives"), Label(90, "evicted", late=True)]
    wide, _ = labels_of(19.5)
    assert wide[-1] == Label(97.5, "evicted", late=True)


def test_a_label_at_the_right_edge_makes_room_for_itself() -> None:
    _, narrow = labels_of(16.4)  # 82%: the word begins at 83% at the latest
    assert narrow[-1] == Label(82, "evicted")
    run = replace(live(), measuring={"b": Measuring(16 * MS, 19 * MS, 4, 1 * MS)}, entries=())
    _, second = lanes(run, NAMES, WHOLE)
    assert second.labels == (Label(80, "measuring"), Label(95, "arrives", late=True))
    assert second.labels_if_narrow == (Label(80, "measuring, arrives", late=True),)


def test_without_neaptide_a_lane_shows_when_the_program_ran() -> None:
    first, second = lanes(replace(live("one after the other"), entries=()), NAMES, WHOLE)
    assert [(piece.look, piece.x, piece.width) for piece in first.pieces] == [("iteration", 0, 500)]
    assert [(piece.look, piece.x, piece.width) for piece in second.pieces] == [("iteration", 250, 750)]


def test_the_close_up_holds_whole_iterations_of_the_slowest_job_while_all_iterate() -> None:
    slow = [(start, start + 90) for start in range(0, 1000, 100)]
    fast = [(start, start + 40) for start in range(300, 1500, 50)]
    assert whole_iterations({"slow": slow, "fast": fast}, 2) == Window(500, 690)  # of those from 300 to 990
    assert whole_iterations({"slow": slow, "none": []}, 20) == Window(0, 990)
    assert whole_iterations({"slow": slow[:1], "later": [(2000, 2010)]}) == Window(0, 90)
    assert whole_iterations({}) is None
