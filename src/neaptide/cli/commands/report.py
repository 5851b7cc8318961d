"""`neaptide report`: runs that were kept, side by side, as a table and as a page."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    *folders: Annotated[Path, Parameter(help="Folders that neaptide run wrote.")],
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="Write the page to this file. Default: report.html in the folder, or comparison-N.html here.",
        ),
    ] = None,
) -> int:
    """Compare runs of the same jobs."""
    if not folders:
        raise ValueError("name the folders of one or more runs; neaptide run prints the folder that it writes")
    from neaptide.cli import console
    from neaptide.core.units import format_bytes
    from neaptide.reporting.logs.live_run import compared
    from neaptide.reporting.logs.run_folder import REPORT, read_run
    from neaptide.reporting.pages.html_report import write_report
    from neaptide.reporting.terminal.run_summary import print_runs

    saved = [read_run(folder) for folder in folders]
    path = output or (folders[0] / REPORT if len(folders) == 1 else _new_file())
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: name a file in a directory that exists")
    runs = compared(saved)
    write_report(runs, runs[0].name, path)
    out = console.stdout()
    print_runs(runs, out)
    if len(budgets := {run.budget_bytes for run in runs}) > 1:
        amounts = " and ".join(map(format_bytes, sorted(budgets)))
        out.print(f"The runs had different budgets: {amounts}.", style="yellow")
    out.print(f"\nreport written to {path}", soft_wrap=True)
    return 0


def _new_file() -> Path:
    """The first of comparison-1.html, comparison-2.html, ... that does not exist."""
    return next(path for number in count(1) if not (path := Path(f"comparison-{number}.html")).exists())
