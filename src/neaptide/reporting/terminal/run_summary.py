"""The results of a live run in the terminal, job by job."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from neaptide.core.control.job import JobState
from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.formats import format_duration, format_rate
from neaptide.reporting.logs.activity import spans_of, total_ns
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.terminal.tables import plain_table


def summary_table(run: LiveRun) -> Table:
    """A row per job. The row of a job that was never measured only says how the job ended."""
    table = plain_table()
    table.add_column("job", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for head in ("after", "iterations", "it/s", "of alone", "waiting", "peak"):
        table.add_column(head, justify="right", no_wrap=True)
    records = {record.job.name: record for record in run.row.metrics.jobs}
    spans = spans_of(run.entries, run.end_ns)
    for index, result in enumerate(run.results):
        cells = [Text(result.name, colour_of(index)), _ended(result), Text(format_duration(result.seconds))]
        record = records.get(result.name)
        if record is not None and record.present_ns:
            sums = total_ns(spans.get(result.name, ()))
            waited_ns = sum(sums.values()) - sums[JobState.RUNNING]
            cells += [
                Text(f"{record.iterations:,}"),
                Text(format_rate(record.iterations * 1e9 / record.present_ns)),
                Text(f"{record.against_alone:.0%}"),
                Text(format_seconds(waited_ns / 1e9)),
                Text(format_bytes(run.memory[result.name].peak_bytes)),
            ]
        table.add_row(*cells)
    return table


def remarks(run: LiveRun) -> list[str]:
    """A sentence about each job that did no iteration under the daemon."""
    return [
        f"{result.name} did no iteration under the policy: it ended before it was measured, or never used the device; "
        f"see {result.output}"
        for result in run.results
        if result.name in run.apart and not result.failed
    ]


def summary_line(run: LiveRun) -> str:
    """The run in one line: the work of all jobs together, and the memory they held."""
    held = f"at most {format_bytes(run.row.peak_bytes)} of {format_bytes(run.budget_bytes)} held"
    metrics = run.row.metrics
    done = f"{metrics.throughput:.2f} times the work of one job alone" if metrics.jobs else "no job was measured"
    return f"{run.row.policy}: {done}; {held}"


def _ended(result: JobResult) -> Text:
    if result.failed:
        return Text(result.how, "bold red")
    return Text("interrupted", "yellow") if result.asked_to_end else Text("well", "green")
