"""Figure files: the style that all figures share, the formats, and files that are equal for equal figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text; publishers refuse type 3
    "svg.hashsalt": "neaptide",  # the same trace gives the same file
}
_NO_DATE: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_figure_name(path: Path) -> None:
    """Raise ValueError unless the name ends with a format that can be written."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a figure's name must end with {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {path.name!r}")


def save_figure(draw: Callable[[], Figure], path: Path, dpi: int = 200) -> None:
    """Draw in the shared style and write a PNG, SVG or PDF file; ValueError if the name ends otherwise."""
    check_figure_name(path)
    with matplotlib.rc_context(STYLE):
        draw().savefig(path, dpi=dpi, metadata=_NO_DATE.get(path.suffix.lower()))
