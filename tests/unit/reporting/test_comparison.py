"""The comparison of policies and the table of jobs, as a terminal shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from builders import training_trace
from neaptide.core.control.job import Job, JobKind
from neaptide.core.units import GIB
from neaptide.reporting.formats import format_share
from neaptide.reporting.logs.comparison import Row, comparison_values
from neaptide.reporting.logs.copies import common_name, group_copies
from neaptide.reporting.terminal.comparison import print_comparison
from neaptide.reporting.terminal.workload import workload_table
from neaptide.simulation import Submission
from outcomes import JOBS, job, simulated_run


def printed(rows: list[Row], width: int = 100, colours: bool = False) -> str:
    console = Console(
        file=StringIO(), width=width, force_terminal=colours, color_system="standard" if colours else None
    )
    print_comparison(rows, console)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_each_policy_has_a_row_with_its_throughput_against_temporal() -> None:
    rows = [simulated_run("temporal", 0.5).row, simulated_run("zico", 0.25).row]
    lines = [line.split() for line in printed(rows).splitlines()]
    assert lines[1][0] == "policy"
    assert [line[:2] for line in lines[2:4]] == [["temporal", "1.00x"], ["zico", "2.00x"]]


def test_a_column_without_values_is_left_out() -> None:
    text = printed([simulated_run().row])
    assert "stalls" in text
    assert "SLO" not in text
    assert "evic-" not in text
    assert "makespan" not in text  # one job failed


def test_failed_jobs_are_named_with_their_errors() -> None:
    assert "temporal: job b failed: out of memory" in printed([simulated_run().row])


def test_a_remark_explains_memory_over_a_lowered_budget() -> None:
    row = simulated_run().row
    assert "memory that jobs held then counts as over budget" in printed([row])
    assert "lowered" not in printed([replace(row, metrics=replace(row.metrics, budget_changes=0))])


def test_the_best_value_is_green_and_memory_over_the_budget_is_red() -> None:
    rows = [simulated_run("temporal", 0.5).row, simulated_run("zico", 0.25).row]
    text = printed(rows, colours=True)
    assert re.search(r"\x1b\[32m *2\.00x", text)
    assert not re.search(r"\x1b\[32m *1\.00x", text)
    assert re.search(r"\x1b\[1;31m *1\.00 GiB", text)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_gets_several_tables_with_all_columns(width: int) -> None:
    rows = [simulated_run("temporal", 0.5).row, simulated_run("zico", 0.25).row]
    wide, narrow = printed(rows, 200), printed(rows, width)
    assert max(map(len, narrow.splitlines()[:-1])) <= width
    assert "…" not in narrow
    assert {*wide.split()} == {*narrow.split()}


def test_a_share_is_100_percent_only_if_nothing_is_missing() -> None:
    assert (format_share(1.0), format_share(0.99999), format_share(0.995), format_share(0.5)) == (
        "100%",
        "99.99%",
        "99.50%",
        "50.0%",
    )


def test_the_values_for_programs_have_every_metric() -> None:
    (values,) = comparison_values([simulated_run("temporal", 0.25).row])
    assert (values["policy"], values["throughput"], values["normalised_progress"]) == ("temporal", 2.0, 0.5)
    assert (values["peak_bytes"], values["over_budget_bytes"], values["refused"]) == (5 * GIB, GIB, 1)
    assert [(each["name"], each["done"], each["failure"]) for each in values["jobs"]] == [
        ("a", True, None),
        ("b", False, "out of memory"),
    ]


def test_jobs_with_equal_iterations_are_copies() -> None:
    jobs = [job("a-1"), job("b", solo_ns=5), job("a-2")]
    assert group_copies(jobs) == [[0, 2], [1]]
    assert group_copies([JOBS[0], job("a", JobKind.INFERENCE)]) == [[0], [1]]


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["a"], "a"),
        (["resnet50-1", "resnet50-2"], "2 x resnet50"),
        (["resnet50-1", "resnet50-12"], "2 x resnet50"),
        (["red", "blue"], "2 x red and others"),
    ],
)
def test_copies_share_a_name(names: list[str], together: str) -> None:
    assert common_name(names) == together


def test_the_workload_table_shows_what_each_job_needs() -> None:
    trace = training_trace()
    base = Job(name="a-1", trace=trace, iterations=5)
    submissions = [
        Submission(base),
        Submission(replace(base, name="a-2", iterations=9), 2_000_000_000),
        Submission(replace(base, name="s", iterations=None, kind=JobKind.INFERENCE), 0, (1, 2, 3)),
        Submission(replace(base, name="t", iterations=None, trace=training_trace(asynchronous=False))),
    ]
    console = Console(file=StringIO(), width=100)
    console.print(workload_table(submissions, console.width))
    file = console.file
    assert isinstance(file, StringIO)
    rows = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert rows[1] == "2 x a tiny 4 100 B 157 B 8.01 ms 5-9 0-2 s"
    assert rows[2] == "s tiny 4 100 B 157 B 8.01 ms 3 requests 0 s"
    assert rows[3].endswith("until stopped 0 s")
