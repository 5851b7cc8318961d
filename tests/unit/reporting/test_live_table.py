"""The jobs of a daemon as a table, and as lines if there is no terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.formats import format_duration
from neaptide.reporting.terminal.live_display import LiveDisplay
from neaptide.reporting.terminal.live_lines import LiveLines
from neaptide.reporting.terminal.live_table import LiveTable
from statuses import job_status, status

MEASURED_YET = {"solo_seconds": 0.0, "iterations_done": 0, "iterations_per_second": 0.0, "needs_bytes": 0}


def drawn(table: LiveTable, width: int = 110, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width, markup=False, highlight=False).print(table)
    file.seek(0)
    return [line.rstrip() for line in file]


def test_a_row_shows_state_rate_memory_waiting_and_progress() -> None:
    lines = drawn(LiveTable(status(job_status("first"))))
    assert lines[3].split() == ["job", "state", "it/s", "of", "alone", "held", "peak", "waiting", "progress"]
    assert lines[4].split()[:11] == ["first", "running", "2", "50%", "512", "MiB", "700", "MiB", "1.5", "s", "━" * 14]
    assert lines[4].endswith("10/40")


def test_the_bar_shows_each_jobs_share_of_the_budget() -> None:
    half = drawn(LiveTable(status(job_status("first", held_bytes=1 << 30))), encoding="ascii")[1]
    bar = half[1 : half.index("]")]
    assert bar == "#" * 30 + "." * 30
    assert half.endswith("1.00 GiB of 2.00 GiB, at most 1.00 GiB")


def test_the_headline_sums_the_speeds_of_jobs_against_running_alone() -> None:
    assert drawn(LiveTable(status(job_status("a"), job_status("b"))))[0].endswith("together 1.00 times one job alone")


@pytest.mark.parametrize(
    ("state", "changed", "shown"),
    [
        ("ready", {}, "waiting"),
        ("running", {"stalled": True}, "no memory"),
        ("running unmeasured", MEASURED_YET, "unmeasured"),
        ("queued", {}, "queued"),
        ("failed", {}, "failed"),
    ],
)
def test_states_are_shown_in_words(state: str, changed: dict[str, float], shown: str) -> None:
    assert shown in drawn(LiveTable(status(job_status("first", state, **changed))))[4]


def test_a_job_that_ended_shows_no_rate_and_no_memory() -> None:
    assert drawn(LiveTable(status(job_status("first", "done"))))[4].split()[1:5] == ["done", "-", "-", "-"]


def test_jobs_that_ended_are_below_those_that_run() -> None:
    lines = drawn(LiveTable(status(job_status("a", "done"), job_status("b", "interrupted"), job_status("c"))))
    assert [line.split()[:2] for line in lines[4:]] == [["c", "running"], ["a", "done"], ["b", "interrupted"]]


def test_a_job_that_takes_the_name_of_an_ended_one_has_lines_of_its_own() -> None:
    lines, ended = LiveLines(), job_status("a", "done", pid=1)
    assert len(list(lines.lines(status(ended)))) == 1
    again = job_status("a", pid=2)
    assert len(list(lines.lines(status(again, ended)))) == 1
    assert list(lines.lines(status(again, ended))) == []


def test_a_line_about_a_job_cannot_control_the_terminal() -> None:
    (line,) = LiveLines().lines(status(job_status("a\x1b[2J", "failed", reason="no \x1b]0;room\x07\nhere")))
    assert line == r"[   5.0 s] a\x1b[2J: failed: no \x1b]0;room\x07 here"


def test_a_process_that_has_not_connected_is_shown_as_starting() -> None:
    assert drawn(LiveTable(status(), ["late"]))[4].split() == ["late", "starting"]


def test_the_table_fits_a_narrow_terminal_and_a_name_cannot_control_it() -> None:
    jobs = [job_status("a\x1b[2Jname-that-is-very-long-indeed"), job_status("b", "running unmeasured")]
    lines = drawn(LiveTable(status(*jobs)), width=80)
    assert max(map(len, lines)) <= 80
    assert lines[4].startswith(r"a\x1b[2Jname-…")
    assert lines[4].endswith("10/40")


@pytest.mark.parametrize(("seconds", "text"), [(3.14, "3.1 s"), (75, "1:15 min"), (3660, "1:01 h")])
def test_a_duration_has_tenths_then_minutes_then_hours(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_change_of_a_job_is_one_line_once() -> None:
    lines = LiveLines()
    assert list(lines.lines(status(job_status("a", "measuring", **MEASURED_YET)))) == [
        "[   5.0 s] a: is being measured"
    ]
    known = "[   5.0 s] a: needs 600 MiB, 250 ms an iteration alone"
    assert list(lines.lines(status(job_status("a")))) == [known]
    assert list(lines.lines(status(job_status("a", "ready")))) == []
    assert list(lines.lines(status(job_status("a", "evicted")))) == ["[   5.0 s] a: evicted for the first time"]
    assert (
        list(
            lines.lines(
                status(job_status("a")),
            )
        )
        == []
    )
    assert list(lines.lines(status(job_status("a", "evicted")))) == []  # it may come and go with every iteration
    assert list(lines.lines(status(job_status("a", "stopped")))) == ["[   5.0 s] a: stopped"]
    assert list(lines.lines(status(job_status("a", "running")))) == ["[   5.0 s] a: runs again"]
    assert list(lines.lines(status(job_status("a", "ready")))) == []
    ended = job_status("a", "failed", reason="out of memory")
    assert list(lines.lines(status(ended))) == ["[   5.0 s] a: failed: out of memory"]


def test_a_line_about_all_jobs_comes_every_few_seconds() -> None:
    lines = LiveLines(every_seconds=10)
    list(lines.lines(status(job_status("a"), uptime_seconds=5)))
    assert list(lines.lines(status(job_status("a"), uptime_seconds=14))) == []
    assert list(lines.lines(status(job_status("a"), uptime_seconds=15))) == [
        "[  15.0 s] 1.00 GiB of 2.00 GiB; a 10/40 (2/s)"
    ]


def test_without_a_terminal_the_display_prints_lines_and_the_last_output_of_failed_jobs() -> None:
    file = io.StringIO()
    with LiveDisplay(Console(file=file, width=100)) as display:
        display.show(status(job_status("a")), ["a", "b"])
        display.ended(JobResult("a", 1, 2.0, "a.log", ("Traceback", "[bold]KeyError: 'x'\x1b[2J")))
        display.ended(JobResult("b", 0, 2.0, "b.log"))
        display.ended(JobResult("c", 5, 2.0, "c.log"))
    assert file.getvalue().splitlines() == [
        "[   5.0 s] a: needs 600 MiB, 250 ms an iteration alone",
        "a failed after 2.0 s: exit code 1; a.log ends with",
        "  Traceback",
        r"  [bold]KeyError: 'x'\x1b[2J",
        "b ended after 2.0 s",
        "c failed after 2.0 s: exit code 5; c.log is empty",
    ]


def test_on_a_terminal_the_table_disappears_and_lines_about_ended_jobs_stay() -> None:
    file = io.StringIO()
    with LiveDisplay(Console(file=file, width=100, force_terminal=True)) as display:
        display.show(status(job_status("a")), ["a", "late"])
        display.ended(JobResult("a", 0, 2.0, "a.log"))
    assert "starting" in file.getvalue()
    assert "a ended after 2.0 s" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")
