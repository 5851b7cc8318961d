"""Event log files: lines of JSON from which every metric can be computed again.

A run is a header line and then its entries in order. A file may hold several runs, one after the other. Equal
simulations write equal files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Entry, Handled
from neaptide.core.control.log_format import (
    Header,
    HeldMemory,
    Joined,
    Line,
    LogFormatError,
    Lost,
    decode_line,
    encode_line,
)


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run, read from a log."""

    header: Header
    entries: tuple[Entry, ...]
    joined: tuple[Joined, ...] = ()  # the jobs that joined the daemon
    memory: tuple[HeldMemory, ...] = ()  # the bytes that the daemon's jobs held, in the order of time
    lost_lines: int = 0  # that could not be written


@dataclass(slots=True)
class _Reading:
    header: Header
    entries: list[Entry] = field(default_factory=list)
    joined: list[Joined] = field(default_factory=list)
    memory: list[HeldMemory] = field(default_factory=list)
    lost_lines: int = 0

    def run(self) -> LoggedRun:
        header = self.header
        if self.joined:
            latest = {joined.facts.name: joined.facts for joined in self.joined}
            for entry in self.entries:  # the last measurement is the best
                if isinstance(entry, ev.JobMeasured) and entry.job in latest:
                    latest[entry.job] = msgspec.structs.replace(latest[entry.job], solo_ns=entry.solo_ns)
            header = msgspec.structs.replace(header, jobs=(*header.jobs, *latest.values()))
        if not header.end_ns and self.entries:
            header = msgspec.structs.replace(header, end_ns=self.entries[-1].at_ns)
        return LoggedRun(header, tuple(self.entries), tuple(self.joined), tuple(self.memory), self.lost_lines)


def log_lines(header: Header, entries: Iterable[Entry]) -> Iterator[bytes]:
    """The lines of a run, without line ends."""
    yield encode_line(header)
    yield from map(encode_line, entries)


def write_log(path: Path, runs: Iterable[tuple[Header, Iterable[Entry]]]) -> None:
    """Write runs one after the other."""
    with path.open("wb") as file:
        for header, entries in runs:
            file.writelines(line + b"\n" for line in log_lines(header, entries))


def read_runs(path: Path) -> list[LoggedRun]:
    """Read the runs of a log file; ValueError with the number of a line that is not an entry.

    A last line without its end is left out: its writer was killed, or is still writing.
    """
    with path.open("rb") as file:
        return parse_runs(file, str(path))


def parse_runs(lines: Iterable[bytes], source: str) -> list[LoggedRun]:
    """Read runs from lines; `source` names their file in errors."""
    found: list[_Reading] = []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        entry = decoded(line, number, source)
        if not found and not isinstance(entry, Header):
            raise ValueError(f"{source}, line {number}: not the header of an event log")
        match entry:
            case Header():
                found.append(_Reading(entry))
            case Joined():
                found[-1].joined.append(entry)
            case Handled():
                found[-1].entries.append(entry.event)
            case HeldMemory():
                found[-1].memory.append(entry)
            case Lost():
                found[-1].lost_lines += entry.lines
            case _:
                found[-1].entries.append(entry)
    return [reading.run() for reading in found]


def decoded(line: bytes, number: int, source: str) -> Line:
    """The entry in a line; ValueError with the line's number when it is none."""
    try:
        return decode_line(line)
    except LogFormatError as error:
        raise ValueError(f"{source}: {error}") from None
    except (ValueError, LookupError, AttributeError, TypeError):
        raise ValueError(f"{source}, line {number}: not an entry of an event log") from None
