"""The jobs of a TOML file under one daemon: started together, watched, and reported on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from neaptide.cli import console
from neaptide.cli.running.jobs_file import JobsFile, load_jobs
from neaptide.core.text import complain
from neaptide.devices.interface import DeviceSettings
from neaptide.live.runs.attendance import NOT_SHARED, WARNING
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_file
from neaptide.live.runs.interrupts import interruptible
from neaptide.live.runs.run_jobs import RunRecord, run_jobs
from neaptide.live.runs.without_neaptide import Without, device_without_daemon, run_without
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.live_run import LiveRun, live_run
from neaptide.reporting.logs.run_folder import REPORT, check_output_folder, folder_for_run, save_run
from neaptide.reporting.pages.html_report import write_report
from neaptide.reporting.terminal.live_display import LiveDisplay
from neaptide.reporting.terminal.run_summary import run_remarks, summary_line, summary_table

JOB_FAILED, INTERRUPTED = 1, 130


def run_file(
    path: Path, wanted: DaemonRequest, device: DeviceSettings, output: Path | None, without: str | None = None
) -> int:
    """Run the jobs; 0 when all succeeded, 1 when one failed, 3 when none was shared, 130 when it was interrupted.

    `device` and `wanted` come before what the file says. `without` names a way to run them without a daemon.
    """
    given = load_jobs(path)
    if without is not None and wanted.policy is not None:
        raise ValueError("without neaptide no policy decides; leave out --policy or --without-neaptide")
    wanted = replace(
        wanted, policy=wanted.policy or given.policy, budget_bytes=wanted.budget_bytes or given.budget_bytes
    )
    if wanted.policy is not None:
        find_policy(wanted.policy)  # reports a faulty policy before a folder is made
    if output is not None:
        check_output_folder(output)
    out = console.stdout(dispensable=True)
    settings = device.or_else(given.device)
    with interruptible():
        if without is None:
            record, run, folder = _under_a_daemon(given, wanted, settings, output, out)
        else:
            record, run, folder = _without_daemon(
                Without.of(without), given, wanted.budget_bytes, settings, output, out
            )
    out.print(summary_table(run))
    out.print(summary_line(run), style="bold")
    for remark in run_remarks(run):
        out.print(remark, style="yellow")
    try:
        write_report([run], given.name, folder / REPORT)
        out.print(f"report written to {folder / REPORT}", soft_wrap=True)
    except OSError as error:  # a full disk does not change how the jobs ended
        complain(f"no report was written to {folder / REPORT}: {error.strerror}")
    code = _code(record)
    if code == NOT_SHARED:
        complain(WARNING)
    return code


def _under_a_daemon(
    given: JobsFile, wanted: DaemonRequest, device: DeviceSettings, output: Path | None, out: Console
) -> tuple[RunRecord, LiveRun, Path]:
    asked = monotonic()
    with daemon_for_file(wanted) as paths:
        with folder_for_run(output, given.name) as folder:
            _announce(given, folder, out)
            with LiveDisplay(out) as display:
                record = run_jobs(given.jobs, device, paths, folder, display.show, display.ended, asked)
        return record, live_run(save_run(folder, given.name, record, paths)), folder


def _without_daemon(
    how: Without, given: JobsFile, budget_bytes: int | None, device: DeviceSettings, output: Path | None, out: Console
) -> tuple[RunRecord, LiveRun, Path]:
    with device_without_daemon(budget_bytes) as (paths, board):
        with folder_for_run(output, given.name) as folder:
            _announce(given, folder, out)
            with LiveDisplay(out) as display:
                record = run_without(how, given.jobs, device, paths, board, folder, display.show, display.ended)
        return record, live_run(save_run(folder, given.name, record, paths)), folder


def _announce(given: JobsFile, folder: Path, out: Console) -> None:
    names = ", ".join(job.name for job in given.jobs)
    out.print(f"{given.name}: {names}; output in {folder}", style="dim", soft_wrap=True)


def _code(record: RunRecord) -> int:
    if record.interrupted:
        return INTERRUPTED
    if any(result.failed for result in record.results):
        return JOB_FAILED
    return 0 if record.shared else NOT_SHARED
