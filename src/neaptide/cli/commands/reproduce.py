"""`neaptide reproduce`: a paper's experiment on the paper's device, our figures beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from cyclopts import Parameter

Paper = Literal["zico", "salus", "herald", "wavelet", "superneurons", "checkmate", "capuchin", "gist"]


def reproduce(
    paper: Annotated[Paper | None, Parameter(help="One of the papers below.")] = None,
    /,
    *,
    device: Annotated[str | None, Parameter(help="Another device than the paper's: a name or a TOML file.")] = None,
    seed: Annotated[int, Parameter(help="Seed of all random numbers.")] = 0,
    figure: Annotated[Path | None, Parameter(help="Draw the figures into this directory.")] = None,
    json: Annotated[bool, Parameter(help="Also print one JSON object, on the last line.")] = False,
) -> int:
    """Run a paper's experiment without its hardware and print our figures beside the published ones."""
    if paper is None:
        raise ValueError(f"name a paper: {', '.join(get_args(Paper))}")
    if figure is not None and figure.exists() and not figure.is_dir():
        raise ValueError(f"{figure} is a file; name a directory for the figures")

    from importlib import import_module

    from neaptide.cli import console
    from neaptide.reproductions.laboratory import Laboratory
    from neaptide.reproductions.result import print_reproduction, reproduction_values
    from neaptide.scenarios.sources import device_of

    experiment = import_module(f"neaptide.reproductions.papers.{paper}")
    found = experiment.reproduce(Laboratory(device_of(device or experiment.DEVICE), seed))
    out = console.stdout()
    print_reproduction(found, out)
    if figure is not None and not found.figures:
        out.print("\nthis experiment draws no figures")
    elif figure is not None:
        figure.mkdir(parents=True, exist_ok=True)
        out.print()
        for name, save in found.figures.items():
            save(figure / name)
            out.print(f"figure written to {figure / name}", soft_wrap=True)
    if json:
        import msgspec

        from neaptide import __version__

        values = {**reproduction_values(found), "seed": seed, "version": __version__}
        print(msgspec.json.encode(values).decode())
    return 0
