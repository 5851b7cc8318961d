"""What runs of the same jobs show, in one sentence, and the errors and results that the sentence rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from neaptide.core.units import format_bytes
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.formats import format_duration
from neaptide.reporting.logs.live_run import LiveRun

_FOLDERS = re.compile(r"(?<![\w.:/-])/(?:[^\s/'\":]+/)+")  # of an absolute path, not of a link


def verdict(runs: Sequence[LiveRun]) -> str:
    """The outcome of the run that is judged, with the baseline that it is judged against."""
    run = judged(runs)
    if run is None:
        return "No run did all its jobs."
    parts = [_times(run, runs), _held(run)]
    if same_results(runs):
        parts.append("the results did not change")
    return "; ".join(parts) + "."


def judged(runs: Sequence[LiveRun]) -> LiveRun | None:
    """The run that the page is about: the last one under neaptide whose jobs all ended well, or else the last of all.

    None if no run of several has done all its jobs.
    """
    if len(runs) == 1:
        return runs[0]
    done = [run for run in runs if run.ended_well]
    return next((run for run in reversed(done) if not run.outside), done[-1] if done else None)


def same_results(runs: Sequence[LiveRun]) -> bool:
    """Whether every job's last line has a number in it, and is the same in all runs whose jobs all ended well."""
    done = [{result.name: result.last_line for result in run.results} for run in runs if run.ended_well]
    numbers = all(re.search(r"\d", line) for lines in done for line in lines.values())
    return len(done) > 1 and numbers and all(lines == done[0] for lines in done)


def error_of(result: JobResult) -> str:
    """The last line of a job that failed, without the folders of this machine; "" if it did not fail."""
    if not result.failed:
        return ""
    last = result.last_lines[-1] if result.last_lines else "it printed nothing"
    return f"{result.how}: {without_folders(last)}"


def without_folders(text: str) -> str:
    """The text with only the last part of each absolute path."""
    return _FOLDERS.sub("", text)


def failures(runs: Sequence[LiveRun]) -> list[str]:
    """A sentence about each job that failed."""
    return [
        f"{run.row.policy}: {result.name} failed after {format_duration(result.seconds)}, {error}"
        for run in runs
        for result in run.results
        if (error := error_of(result))
    ]


def _times(run: LiveRun, runs: Sequence[LiveRun]) -> str:
    jobs = f"{len(run.results)} {'job' if len(run.results) == 1 else 'jobs'}"
    took = f"{jobs} in {format_duration(run.seconds or run.end_ns / 1e9)}"
    alone = next((each for each in runs if each.one_by_one and each.ended_well and each is not run), None)
    if run.outside:
        return f"{took}, {run.row.policy}, without neaptide"
    if not run.ended_well:
        failed = ", ".join(result.name for result in run.results if result.failed)
        return f"{took} under {run.row.policy}" + (f"; {failed} failed" if failed else ", interrupted")
    if alone is None:
        return f"{took} under {run.row.policy}{_alone_words(run)}"
    ratio = f"{alone.seconds / run.seconds:.2f} times as fast" if run.seconds else ""
    return f"{took} under {run.row.policy} instead of {format_duration(alone.seconds)} one after the other, {ratio}"


def _alone_words(run: LiveRun) -> str:
    work_ns = sum(record.work_ns for record in run.row.metrics.jobs)
    if not work_ns:
        return ""
    took = format_duration(work_ns / 1e9)
    if len(run.results) == 1:
        return f"; alone its iterations would take {took}"
    return f"; alone, one after the other, their iterations would take {took}"


def _held(run: LiveRun) -> str:
    return f"at most {format_bytes(run.row.peak_bytes)} of {format_bytes(run.budget_bytes)} held"
