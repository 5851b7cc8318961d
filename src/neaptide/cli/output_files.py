"""Checks of the files that a command will write."""

from __future__ import annotations

from pathlib import Path


def check_writable(*paths: Path | None, figure: Path | None = None) -> None:
    """Raise ValueError before the work begins if a file cannot be written, or is no name for a figure."""
    for path in (*paths, figure):
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a directory; name a file")
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"cannot write {path}: there is no directory {path.parent}")
    if figure is not None:
        from neaptide.reporting.figures.files import check_figure_name

        check_figure_name(figure)
