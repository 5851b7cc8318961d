"""The event log as lines of JSON: what one needs to compute every metric again, and nothing that differs between runs.

A run is a header line and then its entries in order; a file may hold several runs, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from neaptide import __version__
from neaptide.core import actions as act
from neaptide.core import events as ev
from neaptide.core.controller import Decided, Entry, Refused
from neaptide.core.trace import Phase
from neaptide.reporting.records import JobFacts

FORMAT = 1
_EVENTS = {kind.__struct_config__.tag: kind for kind in ev.Event.__subclasses__()}
_ACTIONS = {kind.__struct_config__.tag: kind for kind in act.Action.__subclasses__()}


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="log", tag="run"):
    """The first line of a run."""

    format: int = FORMAT
    version: str = __version__
    scenario: str
    policy: str
    seed: int
    device: str
    budget_bytes: int
    end_ns: int
    jobs: tuple[JobFacts, ...]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run as it was read from a log."""

    header: Header
    entries: tuple[Entry, ...]


def log_lines(header: Header, entries: Iterable[Entry]) -> Iterator[bytes]:
    """A run as lines, without their ends."""
    encode = msgspec.json.Encoder().encode
    yield encode(header)
    for entry in entries:
        if isinstance(entry, ev.PhaseEnded):  # a phase is a number, and a reader wants its name
            yield encode({**msgspec.to_builtins(entry), "phase": entry.phase.name.lower()})
        else:
            yield encode(entry)


def write_log(path: Path, runs: Iterable[tuple[Header, Iterable[Entry]]]) -> None:
    """Write runs one after the other."""
    with path.open("wb") as file:
        for header, entries in runs:
            file.writelines(line + b"\n" for line in log_lines(header, entries))


def read_runs(path: Path) -> list[LoggedRun]:
    """The runs of a log; ValueError with the line that is none."""
    found: list[tuple[Header, list[Entry]]] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                said = msgspec.json.decode(line)
                if said.get("log") == "run":
                    found.append((msgspec.convert(said, Header), []))
                else:
                    found[-1][1].append(_entry(said))
            except (ValueError, LookupError, AttributeError, TypeError):
                raise ValueError(f"{path}, line {number}: not an entry of an event log") from None
    return [LoggedRun(header, tuple(entries)) for header, entries in found]


def _entry(said: dict[str, Any]) -> Entry:
    if "event" in said:
        if "phase" in said:
            said["phase"] = Phase[said["phase"].upper()]
        return msgspec.convert(said, _EVENTS[said["event"]])
    action = msgspec.convert(said["action"], _ACTIONS[said["action"]["action"]])
    if said["log"] == "decided":
        return Decided(said["at_ns"], action)
    return Refused(said["at_ns"], action, said["reason"])
