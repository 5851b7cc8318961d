"""Live runs in the terminal: the same facts, verdict and tables as on the page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from neaptide.core.units import format_bytes
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.formats import format_duration, format_rate
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.logs.run_tables import (
    TextTable,
    ended_words,
    facts,
    job_names,
    jobs_table,
    memory_table,
    results_table,
)
from neaptide.reporting.logs.verdict import failures, verdict
from neaptide.reporting.terminal.comparison import print_comparison
from neaptide.reporting.terminal.tables import plain_table

_FEW_COLUMNS = 3  # a table of so few has words in its cells, which may be long and are then wrapped


def print_runs(runs: Sequence[LiveRun], console: Console) -> None:
    """Print runs of the same jobs: what was run where, the verdict, and the tables."""
    console.print(Text("; ".join(_fact(word, value) for word, value in facts(runs)), "dim"))
    console.print(Text(verdict(runs), "bold"))
    console.print()
    print_comparison([run.row for run in runs], console, failures(runs))
    names = job_names(runs)
    for run in runs:
        if run.row.metrics.jobs:
            console.print()
            _print_table(f"Jobs under {run.row.policy}", jobs_table(run), names, console)
            console.print()
            _print_table(f"Memory under {run.row.policy}", memory_table(run), names, console)
    if (results := results_table(runs)) is not None:
        console.print()
        _print_table("Results", results, names, console)


def _fact(word: str, value: str) -> str:
    """A fact as it is said; a device and a date need no word."""
    return value if word in ("device", "date") else f"{word} {value}"


def _print_table(title: str, shown: TextTable, names: Sequence[str], console: Console) -> None:
    """Print a table whose rows are about jobs; one that is too wide is printed on its side."""
    has_words = len(shown.head) <= _FEW_COLUMNS
    table = _table(title, shown.head, shown.rows, names, has_words)
    wanted = Measurement.get(console, console.options.update_width(1000), table).maximum
    if not has_words and wanted > console.width:
        head, *rest = zip(*([shown.head, *shown.rows]), strict=True)
        table = _table(title, head, rest, names)
    console.print(table)
    if shown.note:
        console.print(Text(shown.note, "dim"))


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str], has_words: bool = False
) -> Table:
    table = plain_table(title)
    for index, word in enumerate(head):
        left, last = has_words or index == 0, index == len(head) - 1
        table.add_column(
            Text(word, _colour(word, names)),
            justify="left" if left else "right",
            no_wrap=not (has_words and last),
            overflow="fold",
        )
    for first, *others in rows:
        table.add_row(Text(first, _colour(first, names)), *map(Text, others))
    return table


def _colour(word: str, names: Sequence[str]) -> str:
    return colour_of(names.index(word)) if word in names else ""


def summary_table(run: LiveRun) -> Table:
    """A row per job. The row of a job that was never measured only says how the job ended."""
    table = plain_table()
    table.add_column("job", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    records = {record.job.name: record for record in run.row.metrics.jobs if record.present_ns}
    of_measured = ("iterations", "it/s", "of alone", "waiting", "peak") if records else ()
    for head in ("after", *of_measured):
        table.add_column(head, justify="right", no_wrap=True)
    for index, result in enumerate(run.results):
        cells = [Text(result.name, colour_of(index)), _ended(result), Text(format_duration(result.seconds))]
        record = records.get(result.name)
        if record is not None:
            cells += [
                Text(f"{record.iterations:,}"),
                Text(format_rate(record.iterations * 1e9 / record.present_ns)),
                Text(f"{record.against_alone:.0%}"),
                Text(format_duration(record.waited_ns / 1e9)),
                Text(format_bytes(run.memory[result.name].peak_bytes)),
            ]
        table.add_row(*cells)
    return table


def run_remarks(run: LiveRun) -> list[str]:
    """A sentence about each job that did no iteration under the daemon, or one about a log with gaps."""
    if run.outside:
        return []
    if run.lost_lines:
        return [f"{run.lost_lines:,} lines of the log could not be written, so these figures leave something out"]
    return [
        f"{result.name} did no iteration under the policy: it ended before it was measured, or never used the device; "
        f"see {result.output}"
        for result in run.results
        if result.name in run.unshared and not result.failed
    ]


def summary_line(run: LiveRun) -> str:
    """The run in one line: its wall time, the work of all jobs together, and the memory they held."""
    held = f"at most {format_bytes(run.row.peak_bytes)} of {format_bytes(run.budget_bytes)} held"
    took = f"{format_duration(run.seconds)}; " if run.seconds else ""
    if run.outside:
        return f"{run.row.policy}, without neaptide: {took}{held}"
    metrics = run.row.metrics
    done = f"{metrics.throughput:.2f} times the work of one job alone" if metrics.jobs else "no job was measured"
    return f"{run.row.policy}: {took}{done}; {held}"


def _ended(result: JobResult) -> Text:
    style = "bold red" if result.failed else "yellow" if result.asked_to_end else "green"
    return Text(ended_words(result), style)
