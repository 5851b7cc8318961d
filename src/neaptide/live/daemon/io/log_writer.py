"""The daemon's event log: lines of JSON in a file that is rotated when it is large.

A full disk or a missing folder must not stop the daemon: it complains once, and the lines are lost. The file then ends
with its last whole line. When writing is possible again, a line says how many were lost, and the jobs' lines follow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from neaptide.core.control.log_format import Joined, Line, Lost, encode_line

LARGEST_BYTES = 32 << 20
KEPT = 3  # older files


class EventLog:
    """`events.jsonl`, and the older `events.jsonl.1` and so on.

    Every file begins with the lines of `opening`, as they were when its first line was noted.
    """

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
        self._opened: tuple[Line, ...] = ()  # what `opening` said when the first of them was noted
        self._written = 0
        self._lost = 0  # lines, since writing failed
        self._begun = False
        self.problem = ""

    def note(self, line: Line) -> None:
        """Keep a line to be written by the next `flush`."""
        if not self._waiting:
            self._opened = tuple(self._opening())
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
            self._lost += len(lines)
            if not self.problem:
                self.problem = f"the event log {self._path} cannot be written: {error.strerror}; events are lost"
                self._complain(self.problem)
            return
        if self.problem:
            self.problem = ""
            self._complain(f"the event log {self._path} is written again")

    def _rotate(self) -> None:
        if self._path.exists() and self._path.stat().st_size:
            for number in range(KEPT - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            self._path.replace(self._numbered(1))
        self._written, self._begun = 0, True

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _append(self, lines: Sequence[Line]) -> None:
        """Write all lines or none."""
        with self._path.open("ab", buffering=0) as file:  # opened each time: the file may be moved or removed
            before = os.fstat(file.fileno()).st_size
            lost = [Lost(self._lost)] if self._lost else []
            jobs = (line for line in self._opened if isinstance(line, Joined))
            known = self._opened if not before else jobs if lost else ()
            text = b"".join(encode_line(line) + b"\n" for line in (*known, *lost, *lines))
            try:
                written = 0
                while written < len(text):
                    written += file.write(text[written:])
            except OSError:
                with suppress(OSError):  # it is no file that can be cut back
                    os.ftruncate(file.fileno(), before)
                raise
        self._written += len(text)
        self._lost = 0
