"""The look of tables in the terminal."""

from __future__ import annotations

from rich.table import Table


def plain_table(title: str | None = None, gap: int = 2) -> Table:
    """A table without lines and with dim headings; `gap` spaces between columns."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        header_style="dim",
    )
