"""The tables about live runs, as text: the page and the terminal show the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.units import format_bytes
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.formats import format_duration, format_rate
from neaptide.reporting.logs.comparison import basis, shown_columns
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.logs.records import JobRecord


@dataclass(frozen=True, slots=True)
class TextTable:
    """A heading and rows of cells. The first cell of a row is a name."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def job_names(runs: Sequence[LiveRun]) -> list[str]:
    """The jobs in the order in which the user gave them; this order decides their colours everywhere."""
    started = [result.name for run in runs for result in run.results]
    return list(dict.fromkeys([*started, *(record.job.name for run in runs for record in run.row.metrics.jobs)]))


def facts(runs: Sequence[LiveRun]) -> list[tuple[str, str]]:
    """What was run where: device, date, version, policies and budget, each with a word for what it is."""
    budgets = {format_bytes(run.budget_bytes): None for run in runs}
    found = {
        "device": {run.hardware: None for run in runs},
        "date": {run.began_at: None for run in runs[:1]},
        "neaptide": {run.version: None for run in runs},
        "policy": {run.row.policy: None for run in runs if not run.outside},
        "budget": budgets,
    }
    return [(word, ", ".join(filter(None, values))) for word, values in found.items() if any(values)]


def runs_table(runs: Sequence[LiveRun]) -> TextTable:
    """A row per run, with the columns of every comparison."""
    rows = [run.row for run in runs]
    columns = shown_columns(rows)
    head = ("run", *(column.head.replace("-\n", "").replace("\n", " ").strip() for column in columns))
    cells = []
    for row in rows:
        values = [(column, column.value(row)) for column in columns]
        cells.append((row.policy, *("-" if value is None else column.show(value) for column, value in values)))
    return TextTable(head, tuple(cells), basis(rows))


def jobs_table(run: LiveRun) -> TextTable:
    """A row per job: its speed against running alone, what it waited for, and what measuring it cost."""
    ended = {result.name: ended_words(result) for result in run.results}
    head = (
        "job",
        "ended",
        "iterations",
        "alone (it/s)",
        "here (it/s)",
        "of alone",
        "waiting",
        "of it stalled",
        "stalls",
        "evictions",
        "measured in",
        "at a cost of",
        "peak",
    )
    rows = [(record.job.name, ended.get(record.job.name, ""), *_cells(run, record)) for record in records_in_order(run)]
    note = (
        "A job waits when it cannot run because of other jobs: for its turn, or, stalled, for memory inside an "
        "iteration. While it is measured, a job runs without permits; the cost is what its iterations then took beyond "
        "their time alone."
    )
    return TextTable(head, tuple(rows), note)


def memory_table(run: LiveRun) -> TextTable:
    """A row per job: the three kinds of its memory as they were measured (Salus), and the most that it held."""
    rows = [
        (
            record.job.name,
            format_bytes(record.job.persistent_bytes - record.job.framework_bytes),
            format_bytes(record.job.framework_bytes),
            format_bytes(record.job.peak_bytes - record.job.persistent_bytes),
            _peak(run, record),
        )
        for record in records_in_order(run)
    ]
    note = (
        "Memory of the model and of the framework outlives iterations. The framework's is in no tensor: a GPU's "
        "context, buffers of libraries, and what leased chunks have beyond tensors. The rest is an iteration's."
    )
    return TextTable(("job", "model", "framework", "ephemeral", "peak held"), tuple(rows), note)


def records_in_order(run: LiveRun) -> list[JobRecord]:
    """The records of jobs in the order in which the user gave the jobs."""
    names = job_names([run])
    return sorted(run.row.metrics.jobs, key=lambda record: names.index(record.job.name))


def results_table(runs: Sequence[LiveRun]) -> TextTable | None:
    """The last line that each job printed in each run in which it ended well; None with fewer than two such runs."""
    done = [run for run in runs if run.ended_well and any(result.last_line for result in run.results)]
    if len(done) < 2:
        return None
    rows = [(result.name, run.row.policy, result.last_line) for run in done for result in run.results]
    order = job_names(runs)
    return TextTable(("job", "run", "its last line"), tuple(sorted(rows, key=lambda row: order.index(row[0]))))


def ended_words(result: JobResult) -> str:
    """How a job ended, in a word or two."""
    return "interrupted" if result.asked_to_end else result.how if result.failed else "well"


def _cells(run: LiveRun, record: JobRecord) -> list[str]:
    seconds = record.present_ns / 1e9
    measuring = run.measuring.get(record.job.name)
    return [
        f"{record.iterations:,}",
        format_rate(1e9 / max(record.job.solo_ns, 1)),
        format_rate(record.iterations / seconds if seconds else 0.0),
        f"{record.against_alone:.0%}",
        format_duration(record.waited_ns / 1e9),
        format_duration(record.stalled_ns / 1e9),
        f"{record.stalls:,}",
        f"{record.evictions:,}",
        "-" if measuring is None else f"{format_duration(measuring.lasted_ns / 1e9)}, {measuring.iterations} it.",
        "-" if measuring is None else format_duration(measuring.cost_ns / 1e9),
        _peak(run, record),
    ]


def _peak(run: LiveRun, record: JobRecord) -> str:
    return format_bytes(run.memory[record.job.name].peak_bytes) if record.job.name in run.memory else "-"
