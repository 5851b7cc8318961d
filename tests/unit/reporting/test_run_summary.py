"""Live runs in the terminal and their verdict: rates, wall times, waiting, and what measuring cost."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from neaptide import __version__
from neaptide.core.control.events import BudgetChanged, IterationEnded, JobArrived, JobEnded
from neaptide.core.control.log_format import Header, HeldMemory, Joined
from neaptide.core.units import GIB, MIB
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.live_run import LiveRun, compared, live_run
from neaptide.reporting.logs.log_file import LoggedRun
from neaptide.reporting.logs.run_folder import RunFile, SavedRun
from neaptide.reporting.logs.run_tables import results_table
from neaptide.reporting.logs.verdict import error_of, same_results, verdict, without_folders
from neaptide.reporting.terminal.run_summary import print_runs, summary_line, summary_table
from outcomes import MS, job

S = 1000 * MS


def saved(policy: str, seconds: float, *, last: str = "loss 0.5", code: int = 0) -> SavedRun:
    """A run of one job that arrives after 2 s, does 30 iterations of 100 ms in 6 s, and waits for 3 of them."""
    entries = (
        JobArrived(2 * S, "a"),
        BudgetChanged(2 * S, GIB, 4 * GIB),
        IterationEnded(5 * S, "a", 3 * S, iterations=20),
        IterationEnded(8 * S, "a", 3 * S, iterations=10),
        JobEnded(8 * S, "a", waited_ns=3 * S, stalled_ns=2 * S),
    )
    facts = job("a", iterations=None, solo_ns=100 * MS)
    header = Header(
        scenario="live",
        policy=policy,
        seed=0,
        device="soft",
        budget_bytes=GIB,
        user_bytes=4 * GIB,
        end_ns=8 * S,
        jobs=(facts,),
    )
    outside = "the other" in policy
    logged = LoggedRun(
        replace_jobs(header) if outside else header,
        () if outside else entries,
        joined=() if outside else (Joined(at_ns=2 * S, facts=facts, pid=1, measuring_ns=S, measured_iterations=4),),
        memory=(HeldMemory(S, {"a": 700 * MIB}), HeldMemory(8 * S, {})),
    )
    result = JobResult("a", code, seconds - 0.5, "a.log", ("Error: no",) if code else (), last_line=last)
    file = RunFile(
        name="one", began_ns=0, high_water_bytes=3 * GIB, interrupted=False, results=(result,), seconds=seconds
    )
    return SavedRun(file, logged)


def replace_jobs(header: Header) -> Header:
    return Header(**{field: getattr(header, field) for field in header.__struct_fields__} | {"jobs": ()})


def cells(run: LiveRun) -> list[list[str]]:
    return [[str(cell) for cell in column.cells] for column in summary_table(run).columns]


def printed(runs: list[LiveRun], width: int = 160) -> str:
    console = Console(file=StringIO(), width=width)
    print_runs(runs, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_rates_are_iterations_over_the_time_since_the_job_arrived() -> None:
    run = live_run(saved("neaptide", 9.0))
    assert cells(run) == [["a"], ["well"], ["8.5 s"], ["30"], ["5"], ["50%"], ["3.0 s"], ["700 MiB"]]
    line = " ".join(printed([run]).split())
    assert "a well 30 10 5 50% 3.0 s 2.0 s 0 0 1.0 s, 4 it. 0.6 s 700 MiB" in line
    # Of the 1 GiB that outlives iterations, the framework has 256 MiB.
    assert "a 768 MiB 256 MiB 2.00 GiB 700 MiB" in line


def test_a_run_without_neaptide_has_no_empty_columns() -> None:
    assert cells(live_run(saved("one after the other", 9.0))) == [["a"], ["well"], ["8.5 s"]]


def test_the_facts_in_a_terminal_say_what_they_are() -> None:
    first = printed([live_run(saved("neaptide", 9.0))]).splitlines()[0]
    assert first == f"neaptide {__version__}; policy neaptide; budget 4.00 GiB"


def test_results_are_aligned_left_and_shown_whole() -> None:
    runs = compared(
        [saved("one after the other", 12.0, last="loss 0.5 " * 12), saved("neaptide", 8.0, last="loss 0.5")]
    )
    text = printed(runs, width=60)
    table = text[text.index("Results") :].splitlines()[1:]
    assert table[0].split() == ["job", "run", "its", "last", "line"]
    assert [line.index(word) for line, word in zip(table[:2], ("run", "one"), strict=True)] == [5, 5]
    assert text.count("loss") == text.count("0.5") == 13
    assert max(map(len, table)) <= 60


def test_the_summary_line_has_the_wall_time_the_work_and_the_budget_that_the_user_set() -> None:
    said = "9.0 s; 0.50 times the work of one job alone; at most 3.00 GiB of 4.00 GiB held"
    assert summary_line(live_run(saved("neaptide", 9.0))) == f"neaptide: {said}"
    outside = summary_line(live_run(saved("one after the other", 12.0)))
    assert outside == "one after the other, without neaptide: 12.0 s; at most 3.00 GiB of 4.00 GiB held"


def test_measuring_costs_what_its_iterations_took_beyond_their_time_alone() -> None:
    measuring = live_run(saved("neaptide", 9.0)).measuring["a"]
    assert (measuring.began_ns, measuring.arrived_ns, measuring.lasted_ns) == (S, 2 * S, S)
    assert measuring.cost_ns == 600 * MS  # one second for four iterations of 0.1 s


def test_wall_times_are_compared_with_the_run_one_after_the_other() -> None:
    runs = compared([saved("one after the other", 12.0), saved("neaptide", 8.0), saved("zico", 16.0)])
    assert [run.row.speedup for run in runs] == [1.0, 1.5, 0.75]
    assert {run.row.against_what for run in runs} == {"one after the other, without neaptide, in wall time"}
    lines = [line.split() for line in printed(runs).splitlines()]
    assert ["one", "after", "the", "other", "12.0", "s", "1.00x"] in [line[:7] for line in lines]
    assert ["neaptide", "8.0", "s", "1.50x"] in [line[:4] for line in lines]


def test_a_run_in_which_a_job_failed_has_no_throughput() -> None:
    runs = compared([saved("one after the other", 12.0), saved("neaptide", 3.0, code=1)])
    assert runs[1].row.speedup is None
    assert verdict(runs).startswith("1 job in 12.0 s, one after the other, without neaptide")
    assert "neaptide: a failed after 2.5 s, exit code 1: Error: no" in printed(runs)


def test_the_verdict_names_its_baseline() -> None:
    runs = compared([saved("one after the other", 12.0), saved("neaptide", 8.0)])
    assert verdict(runs) == (
        "1 job in 8.0 s under neaptide instead of 12.0 s one after the other, 1.50 times as fast; "
        "at most 3.00 GiB of 4.00 GiB held; the results did not change."
    )
    assert verdict(compared([saved("neaptide", 8.0)])) == (
        "1 job in 8.0 s under neaptide; alone its iterations would take 3.0 s; at most 3.00 GiB of 4.00 GiB held."
    )


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [("loss 0.5", "loss 0.5", True), ("loss 0.5", "loss 0.6", False), ("done", "done", False), ("", "", False)],
)
def test_results_are_the_same_if_last_lines_with_numbers_are(first: str, second: str, same: bool) -> None:
    runs = compared([saved("one after the other", 12.0, last=first), saved("neaptide", 8.0, last=second)])
    assert same_results(runs) is same
    assert ("the results did not change" in verdict(runs)) is same


def test_one_run_alone_has_no_results_to_compare() -> None:
    assert not same_results(compared([saved("neaptide", 8.0)]))
    assert results_table(compared([saved("neaptide", 8.0)])) is None


def test_the_last_lines_of_two_runs_stand_below_each_other() -> None:
    table = results_table(compared([saved("one after the other", 12.0), saved("neaptide", 8.0)]))
    assert table is not None
    assert table.rows == (("a", "one after the other", "loss 0.5"), ("a", "neaptide", "loss 0.5"))


def test_a_job_that_the_memory_log_does_not_name_holds_nothing() -> None:
    series = live_run(saved("neaptide", 8.0)).memory["a"]
    assert series.held_bytes.tolist() == [700 * MIB, 0]


def test_a_wide_table_is_printed_on_its_side_in_a_narrow_terminal() -> None:
    text = printed([live_run(saved("neaptide", 9.0))], width=60)
    assert "here (it/s)" in text
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('File "/home/me/a b/train.py", line 3', 'File "/home/me/a b/train.py", line 3'.replace("/home/me/", "", 1)),
        ("cannot read /data/set.bin", "cannot read set.bin"),
        ("see https://pytorch.org/docs/notes.html", "see https://pytorch.org/docs/notes.html"),
        ("2/3 of it, and/or more", "2/3 of it, and/or more"),
    ],
)
def test_folders_of_the_machine_are_left_out(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def test_a_failure_without_output_says_so() -> None:
    assert error_of(JobResult("a", -9, 1.0, "a.log")) == "SIGKILL: it printed nothing"
    assert error_of(replace(JobResult("a", 0, 1.0, "a.log"), code=0)) == ""
