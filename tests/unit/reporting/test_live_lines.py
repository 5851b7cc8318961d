"""The lines of a run without a terminal."""

from __future__ import annotations

import pytest

from neaptide.core.units import MIB
from neaptide.reporting.terminal.live_lines import LiveLines
from statuses import job_status, status


def test_lines_about_all_jobs_are_ten_seconds_apart() -> None:
    lines = LiveLines(every_seconds=10)
    list(lines.lines(status(job_status("a"), uptime_seconds=5)))
    said = [second for second in range(6, 40) if list(lines.lines(status(job_status("a"), uptime_seconds=second)))]
    assert said == [15, 25, 35]


def test_a_need_that_grows_by_little_each_time_gets_few_lines() -> None:
    lines = LiveLines()
    growing = [status(job_status("a", needs_bytes=(600 + 6 * step) * MIB)) for step in range(20)]
    said = [line for each in growing for line in lines.lines(each)]
    assert [line.partition("needs ")[2].partition(",")[0] for line in said] == ["600 MiB", "660 MiB"]


@pytest.mark.parametrize("changed", [{"needs_bytes": 900 * MIB}, {"solo_seconds": 0.125}])
def test_a_need_or_a_time_alone_that_has_changed_much_gets_a_line(changed: dict[str, float]) -> None:
    lines = LiveLines()
    assert len(list(lines.lines(status(job_status("a"))))) == 1
    assert len(list(lines.lines(status(job_status("a", **changed))))) == 1
    assert len(list(lines.lines(status(job_status("a"))))) == 1
    assert list(lines.lines(status(job_status("a")))) == []


def test_a_job_that_is_evicted_while_it_is_measured_gets_one_line() -> None:
    lines = LiveLines()
    states = ["measuring", "evicted", "measuring", "evicted", "measuring"]
    seen = [status(job_status("a", state, solo_seconds=0.0, needs_bytes=0)) for state in states]
    assert [line.partition("a: ")[2] for each in seen for line in lines.lines(each)] == [
        "is being measured",
        "evicted for the first time",
    ]


def test_a_job_whose_need_changed_a_little_before_it_was_queued_is_shown_with_the_new_one() -> None:
    lines = LiveLines()
    list(lines.lines(status(job_status("a", needs_bytes=600 * MIB))))
    (line,) = lines.lines(status(job_status("a", "queued", needs_bytes=620 * MIB)))
    assert "queued; needs 620 MiB" in line
