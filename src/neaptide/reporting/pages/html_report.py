"""A live run as one HTML file that opens offline: memory, throughput against running alone, waiting, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from neaptide.core.control.job import JobState
from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.figures.colours import LIMIT, colour_of
from neaptide.reporting.figures.windows import Window, budget_over_time, close_up
from neaptide.reporting.formats import format_rate
from neaptide.reporting.logs.activity import Span, spans_of, total_ns
from neaptide.reporting.logs.comparison import remarks, shown_columns
from neaptide.reporting.logs.event_words import notable_entries
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.pages.svg import lanes_svg, memory_svg

_MOST_EVENTS = 2000  # on the page; the log beside it has all of them


def write_report(runs: Sequence[LiveRun], title: str, path: Path) -> None:
    """Write the page; the event log is expected beside it as events.jsonl."""
    path.write_text(report(runs, title), encoding="utf-8")


def report(runs: Sequence[LiveRun], title: str) -> str:
    """The page for runs of the same jobs, one per policy."""
    style = resources.files("neaptide.reporting.pages").joinpath("report.css").read_text(encoding="utf-8")
    top_bytes = 1.08 * max(budget_over_time(run.budget_bytes, run.entries).peak_bytes for run in runs)
    started = [result.name for run in runs for result in run.results]
    measured = {record.job.name: None for run in runs for record in run.row.metrics.jobs}
    names = list(dict.fromkeys([name for name in started if name in measured] or measured))
    length_ns = max(1, *(run.end_ns - run.first_ns for run in runs))
    body = [f"<h1>{escape(title)}</h1>", _legend(names)]
    if len(runs) > 1:
        body.append(_comparison(runs))
    for run in runs:
        body.append(_section(run, names, Window(run.first_ns, run.first_ns + length_ns), top_bytes))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _legend(names: Sequence[str]) -> str:
    keys = "".join(f"<span>{_swatch(colour_of(i))}{escape(name)}</span>" for i, name in enumerate(names))
    return f'<p class="legend">{keys}<span>{_swatch(LIMIT, line=True)}budget</span></p>'


def _swatch(colour: str, line: bool = False) -> str:
    return f'<i class="{"line" if line else "swatch"}" style="background:{colour}"></i>'


def _comparison(runs: Sequence[LiveRun]) -> str:
    rows = [run.row for run in runs]
    columns = shown_columns(rows)
    head = ["policy", *(column.head.replace("-\n", "").replace("\n", " ").strip() for column in columns)]
    lines = []
    for row in rows:
        values = [column.value(row) for column in columns]
        shown = ["-" if v is None else c.show(v) for c, v in zip(columns, values, strict=True)]
        lines.append([f"<b>{escape(row.policy)}</b>", *map(escape, shown)])
    notes = "".join(f'<p class="bad">{escape(line)}</p>' for line in remarks(rows))
    explained = '<p class="note">Throughput is against temporal sharing; docs/metrics.md defines every column.</p>'
    return f"<h2>Policies compared</h2>{_table(head, lines)}{explained}{notes}"


def _section(run: LiveRun, names: Sequence[str], whole: Window, top_bytes: float) -> str:
    metrics = run.row.metrics
    spans = spans_of(run.entries, run.end_ns)
    close = close_up([metrics.jobs])
    parts = [f"<section><h2>{escape(run.row.policy)}</h2>", _figures(run)]
    parts.append(memory_svg(run, names, whole, top_bytes, f"memory held under {run.row.policy}"))
    if close is not None:
        parts.append("<h3>A few iterations</h3>")
        parts.append(memory_svg(run, names, close, top_bytes, "memory held, close-up"))
        parts.append(lanes_svg(spans, names, close, "iterations, close-up"))
        parts.append('<p class="note">Lanes: bright inside an iteration, pale while waiting for the next.</p>')
    parts.append("<h3>Throughput against running alone</h3>")
    parts.append(_throughput(run, names))
    parts.append("<h3>Waiting</h3>")
    parts.append(_waiting(run, spans, names))
    parts.append(_failures(run.results))
    parts.append(_events(run))
    parts.append("</section>")
    return "\n".join(parts)


def _figures(run: LiveRun) -> str:
    metrics = run.row.metrics
    peak = f"{format_bytes(run.row.peak_bytes)} of {format_bytes(run.budget_bytes)}"
    figures = [
        (f"{metrics.throughput:.2f}x", "of the work of one job alone"),
        (peak, "most memory held"),
        ("-" if metrics.makespan_ns is None else format_seconds(metrics.makespan_ns / 1e9), "makespan"),
        (f"{metrics.evictions}", "evictions"),
    ]
    if failed := sum(result.failed for result in run.results):
        figures.append((f'<span class="bad">{failed}</span>', "failed"))
    return '<div class="figures">' + "".join(f"<div><b>{v}</b>{w}</div>" for v, w in figures) + "</div>"


def _throughput(run: LiveRun, names: Sequence[str]) -> str:
    ended = {result.name: _ended(result) for result in run.results}
    lines = []
    for record in run.row.metrics.jobs:
        seconds = record.present_ns / 1e9
        here = record.iterations / seconds if seconds else 0.0
        alone = 1e9 / max(record.job.solo_ns, 1)
        bar = _bar(colour_of(names.index(record.job.name)), min(record.against_alone, 1.0))
        lines.append(
            [
                _job_name(record.job.name, names),
                f"{record.iterations:,}",
                format_rate(alone),
                format_rate(here),
                f"{record.against_alone:.0%}",
                ended.get(record.job.name, ""),
                bar,
            ]
        )
    return _table(["job", "iterations", "alone (it/s)", "here (it/s)", "of alone", "ended", ""], lines)


def _ended(result: JobResult) -> str:
    if result.asked_to_end:
        return "interrupted"
    return f'<span class="bad">{escape(result.how)}</span>' if result.failed else "well"


def _waiting(run: LiveRun, spans: Mapping[str, Sequence[Span]], names: Sequence[str]) -> str:
    lines = []
    for record in run.row.metrics.jobs:
        sums = total_ns(spans.get(record.job.name, []))
        whole = sum(sums.values()) or 1
        bar = _bar(colour_of(names.index(record.job.name)), sums[JobState.RUNNING] / whole)
        cells = [format_seconds(sums[state] / 1e9) for state in (JobState.QUEUED, JobState.READY, JobState.SUSPENDED)]
        waited = 1 - sums[JobState.RUNNING] / whole
        lines.append([_job_name(record.job.name, names), *cells, str(record.stalls), f"{waited:.0%}", bar])
    head = ["job", "queued", "between iterations", "in host memory", "stalls", "of its time", "inside iterations"]
    return _table(head, lines)


def _bar(colour: str, share: float) -> str:
    return f'<div class="bar"><i style="width:{share:.2%};background:{colour};opacity:1"></i></div>'


def _job_name(name: str, names: Sequence[str]) -> str:
    return f"{_swatch(colour_of(names.index(name)))}{escape(name)}"


def _failures(results: Sequence[JobResult]) -> str:
    parts = []
    for result in results:
        if result.failed:
            lines = escape("\n".join(result.last_lines)) or "(the job printed nothing)"
            parts.append(f'<h3 class="bad">{escape(result.name)} ended with {result.how}</h3><pre>{lines}</pre>')
    return "".join(parts)


def _events(run: LiveRun) -> str:
    notable = list(notable_entries(run.entries))
    lines = [[f"{at_ns / 1e9:,.3f}", escape(words)] for at_ns, words in notable[:_MOST_EVENTS]]
    left = len(notable) - len(lines)
    more = f"; {left:,} more notable ones are there too" if left else ""
    note = f'<p class="note">The whole log, {len(run.entries):,} entries, is events.jsonl beside this page{more}.</p>'
    return f"<details><summary>Events ({len(notable):,})</summary>{_table(['seconds', 'event'], lines)}{note}</details>"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML."""
    columns = "".join(f"<th>{escape(each)}</th>" for each in head)
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{columns}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'
