"""The daemon's event log: lines of JSON in a file that is rotated when it is large.

A full disk or a missing folder must not stop the daemon: it complains once, and the lines are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from neaptide.core.control.log_format import Line, encode_line

LARGEST_BYTES = 32 << 20
KEPT = 3  # older files


class EventLog:
    """`events.jsonl`, and the older `events.jsonl.1` and so on. Every file begins with the lines of `opening`."""

    def __init__(
        self,
        path: Path,
        opening: Callable[[], Iterable[Line]],
        complain: Callable[[str], None],
        largest_bytes: int = LARGEST_BYTES,
    ) -> None:
        self._path = path
        self._opening = opening
        self._complain = complain
        self._largest_bytes = largest_bytes
        self._waiting: list[Line] = []
        self._written = 0
        self._begun = False
        self.problem = ""

    def note(self, line: Line) -> None:
        """Keep a line to be written by the next `flush`."""
        self._waiting.append(line)

    @property
    def pending(self) -> int:
        """Lines to be written."""
        return len(self._waiting)

    def flush(self) -> None:
        """Write the lines. Problems of the disk raise no error."""
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        try:
            if not self._begun or self._written > self._largest_bytes:
                self._rotate()
            self._append(lines)
        except OSError as error:
            if not self.problem:
                self.problem = f"the event log {self._path} cannot be written: {error.strerror}; events are lost"
                self._complain(self.problem)
            return
        if self.problem:
            self.problem = ""
            self._complain(f"the event log {self._path} is written again")

    def _rotate(self) -> None:
        if self._path.exists():
            for number in range(KEPT - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            self._path.replace(self._numbered(1))
        self._written = 0
        self._append(self._opening())
        self._begun = True

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _append(self, lines: Iterable[Line]) -> None:
        text = b"".join(encode_line(line) + b"\n" for line in lines)
        with self._path.open("ab", buffering=0) as file:  # opened each time: the file may be moved or removed
            file.write(text)
        self._written += len(text)
