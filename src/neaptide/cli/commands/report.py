"""`neaptide report`: runs that were kept, side by side, as a table and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    *folders: Annotated[Path, Parameter(help="Folders that neaptide run wrote.")],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write the page to this file.")] = None,
) -> int:
    """Compare runs of the same jobs."""
    if not folders:
        raise ValueError("name the folders of one or more runs; neaptide run prints the folder that it writes")
    from neaptide.cli import console
    from neaptide.core.units import format_bytes
    from neaptide.reporting.logs.live_run import compared
    from neaptide.reporting.logs.run_folder import REPORT, read_run
    from neaptide.reporting.pages.html_report import write_report
    from neaptide.reporting.terminal.comparison import print_comparison

    path = folders[0] / REPORT if output is None else output
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: name a file in a directory that exists")
    runs = compared([read_run(folder) for folder in folders])
    write_report(runs, f"{runs[0].name}, budget {format_bytes(runs[0].budget_bytes)}", path)
    out = console.stdout()
    print_comparison([run.row for run in runs], out)
    out.print(f"\nreport written to {path}", soft_wrap=True)
    return 0
