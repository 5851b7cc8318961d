"""`neaptide verify`: whether the device here keeps what neaptide promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from neaptide.verification.report import Report

FAILED = 1
_FILE = Path("neaptide-verify.json")


def verify(
    *,
    quick: Annotated[bool, Parameter(help="Watch each run for 3 seconds instead of 20.")] = False,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help=f"Write the report as JSON to this file. Default: {_FILE}.")
    ] = _FILE,
) -> int:
    """Run jobs on the device and judge each promise; exit code 1 when one is not kept."""
    import msgspec

    from neaptide.cli.output_files import check_writable
    from neaptide.core.text import complain
    from neaptide.verification.verify import verify as run

    check_writable(output)
    report = run(quick, complain)
    for line in _page(report):
        print(line)
    output.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    print(f"written to {output}")
    return FAILED if report.failed else 0


def _page(report: Report) -> list[str]:
    from neaptide.core.text import printable
    from neaptide.core.units import format_bytes

    width = max(len(line.subject) for line in report.lines)
    page = [
        f"neaptide {report.neaptide}, torch {report.torch}, {report.kind}: {report.device}",
        f"{report.began_at}, {report.seconds:.0f} s{', the quick form' if report.quick else ''}",
        f"jobs: {'; '.join(report.jobs)}; budget {format_bytes(report.budget_bytes)}",
        "",
        *(f"{line.verdict:<19}  {line.subject:<{width}}  {line.text}" for line in report.lines),
    ]
    return [printable(line) for line in page]
