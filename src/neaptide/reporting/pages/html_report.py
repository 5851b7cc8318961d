"""Live runs of the same jobs as one HTML file that opens offline: a verdict, a close-up, all runs, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from neaptide.core.control.controller import Entry
from neaptide.core.control.events import JobFailed
from neaptide.core.control.job import JobState, is_interruption
from neaptide.core.text import printable
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.figures.windows import Window, budget_over_time, whole_iterations
from neaptide.reporting.formats import format_duration
from neaptide.reporting.logs.activity import spans_of
from neaptide.reporting.logs.event_words import notable_entries
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.logs.run_tables import facts, job_names, jobs_table, memory_table, results_table, runs_table
from neaptide.reporting.logs.verdict import failures, judged, verdict
from neaptide.reporting.pages.lanes import Lane, lanes
from neaptide.reporting.pages.plots import WIDTH, Plot, Scale, memory_plot

_MOST_EVENTS = 2000  # on the page; the log beside it has all of them
_HEIGHT, _CLOSE_HEIGHT = 110, 190


@dataclass(frozen=True, slots=True)
class Drawing:
    """The memory of a run, what its jobs did, and words for a heading."""

    title: str
    note: str
    plot: Plot
    lanes: Sequence[Lane]


def write_report(runs: Sequence[LiveRun], title: str, path: Path) -> None:
    """Write the page."""
    path.write_text(report(runs, title), encoding="utf-8")


def report(runs: Sequence[LiveRun], title: str) -> str:
    """The page for runs of the same jobs."""
    names = job_names(runs)
    page = _environment().get_template("report.html.jinja")
    return page.render(
        title=title,
        style=Markup(resources.files("neaptide.reporting.pages").joinpath("report.css").read_text(encoding="utf-8")),
        facts=facts(runs),
        verdict=verdict(runs),
        failures=failures(runs),
        jobs=[(name, colour_of(index)) for index, name in enumerate(names)],
        colours={name: colour_of(index) for index, name in enumerate(names)},
        close_up=_close_up(judged(runs), names),
        overviews=_overviews(runs, names),
        width=WIDTH,
        runs_table=runs_table(runs) if len(runs) > 1 else None,
        jobs_tables=[(run.row.policy, jobs_table(run), memory_table(run)) for run in runs if run.row.metrics.jobs],
        results=results_table(runs),
        events=[(run.row.policy, *_events(run)) for run in runs if run.entries],
    )


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("neaptide.reporting", "pages/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )


def _finalized(value: Any) -> Any:
    """Text on a page: neither a browser nor, when it is copied, a terminal obeys anything in it."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _top_bytes(run: LiveRun) -> float:
    return 1.1 * max(budget_over_time(run.budget_bytes, run.entries).peak_bytes, run.row.peak_bytes, 1)


def _close_up(run: LiveRun | None, names: Sequence[str]) -> Drawing | None:
    """A few whole iterations of the run that the page is about; None if it has none."""
    if run is None:
        return None
    spans = spans_of(run.entries, run.end_ns)
    iterations = {
        name: [(span.start_ns, span.end_ns) for span in each if span.state is JobState.RUNNING]
        for name, each in spans.items()
    }
    window = whole_iterations(iterations)
    if window is None:
        return None
    scale = Scale(window, _top_bytes(run), _CLOSE_HEIGHT)
    return Drawing(
        title="A few iterations",
        note=f"under {run.row.policy}, from {window.start_ns / 1e9:.1f} s on",
        plot=memory_plot(run, names, scale, "memory held, close-up"),
        lanes=lanes(run, names, scale),
    )


def _overviews(runs: Sequence[LiveRun], names: Sequence[str]) -> list[Drawing]:
    """All runs on one time axis from zero, and on one axis of memory."""
    whole, top_bytes = Window(0, max(1, *(run.end_ns for run in runs))), max(map(_top_bytes, runs))
    scale = Scale(whole, top_bytes, _HEIGHT)
    return [
        Drawing(
            title=run.row.policy,
            note=_outcome(run),
            plot=memory_plot(run, names, scale, f"memory held, {run.row.policy}"),
            lanes=lanes(run, names, scale),
        )
        for run in runs
    ]


def _outcome(run: LiveRun) -> str:
    took = format_duration(run.seconds or run.end_ns / 1e9)
    if run.interrupted:
        return f"interrupted after {took}"
    failed = [result.name for result in run.results if result.failed]
    return f"{took}; {' and '.join(failed)} failed" if failed else took


def _without_error(entry: Entry) -> Entry:
    """The entry, without the error of a failure: the top of the page already shows that."""
    if not isinstance(entry, JobFailed) or is_interruption(entry.reason):
        return entry
    return msgspec.structs.replace(entry, reason="")


def _events(run: LiveRun) -> tuple[list[tuple[str, str]], str]:
    notable = list(notable_entries(map(_without_error, run.entries)))
    lines = [(f"{at_ns / 1e9:,.3f}", words) for at_ns, words in notable[:_MOST_EVENTS]]
    left = len(notable) - len(lines)
    more = f"; {left:,} more notable ones are there too" if left else ""
    return lines, f"The whole log, {len(run.entries):,} entries, is events.jsonl in the folder of the run{more}."
