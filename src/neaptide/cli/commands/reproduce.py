"""`neaptide reproduce`: a paper's experiment on the paper's device, our figures beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from cyclopts import Parameter

if TYPE_CHECKING:
    from neaptide.reproductions.result import Reproduction

Paper = Literal[
    "zico",
    "salus",
    "herald",
    "wavelet",
    "gandiva",
    "antman",
    "superneurons",
    "checkmate",
    "capuchin",
    "gist",
    "echo",
    "corner",
]
PaperOrAll = Literal[Paper, "all"]  # not a union of two: cyclopts would not name the choices in an error
PAGE = Path("reproductions.html")


def reproduce(
    paper: Annotated[PaperOrAll | None, Parameter(help="One of the papers, or all.")] = None,
    /,
    *,
    device: Annotated[str | None, Parameter(help="Another device than the paper's: a name or a TOML file.")] = None,
    seed: Annotated[int, Parameter(help="Seed of all random numbers.")] = 0,
    figure: Annotated[Path | None, Parameter(help="Draw the figures into this directory.")] = None,
    page: Annotated[
        Path | None, Parameter(help=f"Write the claims as a page; for all papers always, to {PAGE}.")
    ] = None,
    json: Annotated[bool, Parameter(help="Also print one JSON object, on the last line.")] = False,
) -> int:
    """Run a paper's experiment without its hardware and print our figures beside the published ones."""
    if paper is None:
        raise ValueError(f"name a paper, or all: {', '.join(get_args(Paper))}")
    if figure is not None and figure.exists() and not figure.is_dir():
        raise ValueError(f"{figure} is a file; name a directory for the figures")
    if paper == "all" and page is None:
        page = PAGE

    from neaptide import __version__
    from neaptide.cli import console
    from neaptide.cli.output_files import check_writable
    from neaptide.reproductions.page import claims_page
    from neaptide.reproductions.printing import print_claims, print_reproduction, print_summary
    from neaptide.reproductions.result import reproduction_values

    check_writable(page)
    out = console.stdout()
    failed: dict[str, str] = {}
    if paper == "all":
        found: list[Reproduction] = []
        for name in get_args(Paper):
            try:
                found.append(_run(name, device, seed))
            except ValueError as error:  # for example: no network of this paper fits the named device
                failed[name] = str(error)
            else:
                print_claims(found[-1], out)
        print_summary(found, failed, out)
        values: dict[str, Any] = {"papers": [reproduction_values(each) for each in found], "failed": failed}
    else:
        found = [_run(paper, device, seed)]
        print_reproduction(found[0], out)
        values = reproduction_values(found[0])
    if figure is not None:
        _draw(found, figure)
    if page is not None:
        page.write_text(claims_page(found, failed), encoding="utf-8")
        out.print(f"\npage written to {page}", soft_wrap=True)
    if json:
        import msgspec

        print(msgspec.json.encode({**values, "seed": seed, "version": __version__}).decode())
    return 0


def _run(paper: str, device: str | None, seed: int) -> Reproduction:
    from importlib import import_module

    from neaptide.reporting.terminal.progress import progress_lines
    from neaptide.reproductions.laboratory import Laboratory
    from neaptide.scenarios.sources import device_of

    experiment = import_module(f"neaptide.reproductions.papers.{paper}")
    with progress_lines(f"reproducing {paper}"):
        found: Reproduction = experiment.reproduce(Laboratory(device_of(device or experiment.DEVICE), seed))
    return found


def _draw(found: list[Reproduction], folder: Path) -> None:
    from neaptide.cli import console

    out = console.stdout()
    figures = {name: save for each in found for name, save in each.figures.items()}
    out.print()
    if not figures:
        out.print("this experiment draws no figures")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, save in figures.items():
        save(folder / name)
        out.print(f"figure written to {folder / name}", soft_wrap=True)
