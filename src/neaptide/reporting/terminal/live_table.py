"""The jobs of a running daemon as a table: one row per job, under a bar of the device's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from neaptide.core.control.job import DisplayState
from neaptide.core.text import printable
from neaptide.core.units import format_bytes
from neaptide.live.protocol.messages import JobStatus, Status
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.formats import format_duration, format_rate
from neaptide.reporting.terminal.tables import plain_table

_STYLES = {
    DisplayState.RUNNING: "green",
    DisplayState.READY: "",
    DisplayState.QUEUED: "yellow",
    DisplayState.SUSPENDED: "yellow",
    DisplayState.EVICTED: "yellow",
    DisplayState.STOPPED: "yellow",
    DisplayState.NOT_SHARED: "bold red",
    DisplayState.MEASURING: "cyan",
    DisplayState.UNMEASURED: "cyan",
    DisplayState.STARTING: "cyan",
    DisplayState.DONE: "dim",
    DisplayState.INTERRUPTED: "yellow",
    DisplayState.FAILED: "bold red",
}
_NARROW = 96  # below this width the bars of progress are left out
_BAR = 14


class LiveTable:
    """The daemon's status as a rich renderable."""

    def __init__(self, status: Status, starting: Sequence[str] = ()) -> None:
        self.status = status
        self.starting = starting  # jobs whose processes run and have not connected yet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        jobs = self.status.jobs
        parts: list[RenderableType] = [
            _headline(self.status),
            _memory_bar(self.status, options.max_width, ascii_only),
            Text(),
            live_jobs_table(jobs, self.starting, options.max_width, ascii_only),
        ]
        if self.status.problem:
            parts.append(Text(printable(self.status.problem), "bold yellow"))
        yield Group(*parts)


def _headline(status: Status) -> Text:
    there = [job for job in status.jobs if not job.state.ended]
    alone = sum(_against_alone(job) or 0.0 for job in there)
    words = Text.assemble((status.policy, "bold"), f"  {format_duration(status.uptime_seconds)}")
    if alone:
        words.append(f"  together {alone:.2f} times one job alone", "dim")
    return words


def _memory_bar(status: Status, width: int, ascii_only: bool) -> Text:
    """The share of the budget that each job holds, and the most that all jobs ever held."""
    words = f" {format_bytes(status.used_bytes)} of {format_bytes(status.budget_bytes)}"
    most = f", at most {format_bytes(status.high_water_bytes)}"
    cells = max(10, min(60, width - len(words) - len(most) - 2))
    bar, filled, held_bytes = Text("["), 0, 0
    colours = _colours(status.jobs)
    for job in status.jobs:
        index = colours[job.name]
        held_bytes += 0 if job.state.ended else job.held_bytes
        until = min(cells, round(cells * held_bytes / max(status.budget_bytes, 1)))
        bar.append(("#=+*%@"[index % 6] if ascii_only else "█") * (until - filled), colour_of(index))
        filled = until
    bar.append(("." if ascii_only else "·") * (cells - filled), "dim")
    over = status.high_water_bytes > status.budget_bytes
    return bar.append("]").append(words).append(most, "bold red" if over else "dim")


def live_jobs_table(jobs: Sequence[JobStatus], starting: Iterable[str], width: int, ascii_only: bool) -> Table:
    """A row per job."""
    narrow = width < _NARROW
    table = plain_table(gap=1 if narrow else 2)
    table.add_column("job", no_wrap=True, overflow="ellipsis", max_width=14 if narrow else 32)
    table.add_column("state", no_wrap=True, min_width=9)
    table.add_column("it/s", justify="right", no_wrap=True, min_width=5)
    table.add_column("alone" if narrow else "of alone", justify="right", no_wrap=True)
    table.add_column("held", justify="right", no_wrap=True, min_width=8)
    table.add_column("peak", justify="right", no_wrap=True, min_width=8)
    table.add_column("waiting", justify="right", no_wrap=True)
    table.add_column("progress", no_wrap=True)
    colours = _colours(jobs)
    for job in sorted(jobs, key=lambda job: job.state.ended):
        title = Text(printable(job.name), colour_of(colours[job.name]))
        table.add_row(title, *_cells(job, 0 if narrow else _BAR, ascii_only))
    for name in starting:
        table.add_row(Text(printable(name), "dim"), Text("starting", _STYLES[DisplayState.STARTING]))
    return table


def _colours(jobs: Iterable[JobStatus]) -> dict[str, int]:
    """A colour's number for each name, which stays when a job ends."""
    return {name: number for number, name in enumerate(sorted({job.name for job in jobs}))}


def _cells(job: JobStatus, bar: int, ascii_only: bool) -> list[Text]:
    ended = job.state.ended
    alone = _against_alone(job)
    return [
        state_of(job),
        Text(format_rate(job.iterations_per_second) if job.iterations_per_second and not ended else "-"),
        Text("-" if alone is None else f"{alone:.0%}"),
        Text("-" if ended else _held(job)),
        Text(format_bytes(job.peak_bytes) if job.peak_bytes else "-"),
        Text(format_duration(job.waiting_seconds)),
        _progress(job, bar, ascii_only),
    ]


def _held(job: JobStatus) -> str:
    """What the job holds on the device, and what it has over the link beside it."""
    held = format_bytes(job.held_bytes) if job.held_bytes else "-"
    return f"{held} +{format_bytes(job.over_bytes)}" if job.over_bytes else held


def state_of(job: JobStatus) -> Text:
    """A job's state in a word or two; unusual states are coloured."""
    if job.stalled and job.state is DisplayState.RUNNING:
        return Text("no memory", "yellow")
    return Text(job.state.word, _STYLES[job.state])


def _against_alone(job: JobStatus) -> float | None:
    if job.state.ended or not job.solo_seconds or not job.iterations_per_second:
        return None
    return job.iterations_per_second * job.solo_seconds


def _progress(job: JobStatus, bar: int, ascii_only: bool) -> Text:
    if job.iterations is None:
        return Text(f"{job.iterations_done:,}" if job.iterations_done or job.solo_seconds else "")
    share = min(1.0, job.iterations_done / job.iterations)
    filled = int(share * bar)
    on, off = ("#", ".") if ascii_only else ("━", "━")
    text = Text().append(on * filled, "green").append(off * (bar - filled), "bright_black")
    return text.append(f"{' ' if bar else ''}{job.iterations_done:,}/{job.iterations:,}")
