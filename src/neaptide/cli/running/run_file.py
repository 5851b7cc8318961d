"""The jobs of a TOML file under one daemon: started together, watched, and reported on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from neaptide.cli import console
from neaptide.cli.running.jobs_file import JobsFile, load_jobs
from neaptide.core.units import format_bytes
from neaptide.devices.interface import DeviceSettings
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_file
from neaptide.live.runs.run_jobs import RunRecord, run_jobs
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.live_run import live_run
from neaptide.reporting.logs.run_folder import REPORT, next_folder, prepare_folder, save_run
from neaptide.reporting.pages.html_report import write_report
from neaptide.reporting.terminal.live_display import LiveDisplay
from neaptide.reporting.terminal.run_summary import remarks, summary_line, summary_table

JOB_FAILED, INTERRUPTED = 1, 130
_RUNS = Path("neaptide-runs")


def run_file(path: Path, wanted: DaemonRequest, device: DeviceSettings, output: Path | None) -> int:
    """Run the jobs; 0 when all succeeded, 1 when one failed, 130 when the run was interrupted.

    `device` and `wanted` come before what the file says.
    """
    given = load_jobs(path)
    wanted = replace(
        wanted, policy=wanted.policy or given.policy, budget_bytes=wanted.budget_bytes or given.budget_bytes
    )
    if wanted.policy is not None:
        find_policy(wanted.policy)  # reports a faulty policy before a folder is made
    folder = output or next_folder(_RUNS, given.name)
    prepare_folder(folder)
    out = console.stdout()
    with _ended_by_signals(), daemon_for_file(wanted) as paths:
        _announce(given, folder, out)
        with LiveDisplay(out) as display:
            record = run_jobs(given.jobs, device.or_else(given.device), paths, folder, display.show, display.ended)
        run = live_run(save_run(folder, given.name, record, paths))
    title = f"{given.name}: {run.row.policy}, budget {format_bytes(run.budget_bytes)}"
    write_report([run], title, folder / REPORT)
    out.print(summary_table(run))
    out.print(summary_line(run), style="bold")
    for remark in remarks(run):
        out.print(remark, style="yellow")
    out.print(f"report written to {folder / REPORT}", soft_wrap=True)
    return _code(record)


def _announce(given: JobsFile, folder: Path, out: Console) -> None:
    names = ", ".join(job.name for job in given.jobs)
    out.print(f"{given.name}: {names}; output in {folder}", style="dim", soft_wrap=True)


def _code(record: RunRecord) -> int:
    if record.interrupted:
        return INTERRUPTED
    return JOB_FAILED if any(result.failed for result in record.results) else 0


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
