"""What a program is told once, though it may ask again and again."""

from __future__ import annotations

from neaptide.core.text import complain_aside


class Saying:
    """A line that is printed once."""

    def __init__(self, line: str) -> None:
        self._line: str | None = line

    def __call__(self) -> None:
        if self._line is not None:
            complain_aside(self._line)
        self._line = None
