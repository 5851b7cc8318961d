"""The folder of a live run: the daemon's log, the traces, how each job ended, and the report."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from neaptide.core.control.controller import Entry
from neaptide.core.control.log_format import Header, HeldMemory, encode_line
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.run_jobs import RunRecord
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.log_file import LoggedRun, parse_runs, read_runs

RUN, EVENTS, REPORT, TRACES = "run.json", "events.jsonl", "report.html", "traces"
_HEADER = b'{"log":"run"'


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the facts of a run that the log does not have."""

    name: str
    began_ns: int  # when the jobs were started, on the clock of the log
    high_water_bytes: int
    interrupted: bool
    results: tuple[JobResult, ...]


class SavedRun(msgspec.Struct, frozen=True):
    """A run as its folder has it. Times in its log count from the start of the run."""

    file: RunFile
    logged: LoggedRun


def prepare_folder(folder: Path) -> None:
    """Make the folder, and delete an earlier run in it; ValueError if the folder has other files."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder for the run")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / RUN).is_file():
            raise ValueError(f"{folder} is not empty and has no earlier run; name another folder")
        for path in (*folder.glob("*.log"), *(folder / name for name in (RUN, EVENTS, REPORT))):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder / TRACES, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN).write_text("{}\n")  # marks the folder as a run's even if the run is cut off


def next_folder(parent: Path, name: str) -> Path:
    """The first of the folders name-1, name-2, ... that does not exist."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"


def save_run(folder: Path, name: str, record: RunRecord, daemon: RuntimePaths) -> SavedRun:
    """Save a run: the daemon's log unchanged, and the jobs' traces, so that `neaptide replay` can replay the run."""
    lines = _last_run(daemon.events) or [encode_line(_header(record)) + b"\n"]
    logged = parse_runs(lines, str(daemon.events))[-1]
    (folder / EVENTS).write_bytes(b"".join(lines))
    for joined in logged.joined:
        with suppress(OSError):  # a run without traces still has a report
            (folder / TRACES).mkdir(exist_ok=True)
            shutil.copyfile(daemon.traces / joined.trace, folder / TRACES / joined.trace)
    file = RunFile(
        name=name,
        began_ns=record.began_ns,
        high_water_bytes=record.high_water_bytes,
        interrupted=record.interrupted,
        results=record.results,
    )
    (folder / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(file)) + b"\n")
    return _saved(file, logged)


def read_run(folder: Path) -> SavedRun:
    """Read a run; ValueError if the folder has none."""
    if not (folder / RUN).is_file():
        raise ValueError(f"{folder} is not the folder of a run; neaptide run prints the folder that it writes")
    try:
        file = msgspec.json.decode((folder / RUN).read_bytes(), type=RunFile)
        return _saved(file, read_runs(folder / EVENTS)[-1])
    except (msgspec.MsgspecError, ValueError, OSError, IndexError) as error:
        raise ValueError(f"{folder}: the run was not saved completely: {error}") from None


def _saved(file: RunFile, logged: LoggedRun) -> SavedRun:
    return SavedRun(file, _since(logged, file.began_ns, [result.name for result in file.results]))


def _last_run(log: Path) -> list[bytes]:
    """The lines of the daemon's latest run; none when the daemon could write no log."""
    if not log.is_file():
        return []
    lines = log.read_bytes().splitlines(keepends=True)
    headers = [index for index, line in enumerate(lines) if line.startswith(_HEADER)]
    return lines[headers[-1] :] if headers else []


def _header(record: RunRecord) -> Header:
    return Header(
        scenario="live",
        policy=record.policy,
        seed=0,
        device=record.device,
        budget_bytes=record.budget_bytes,
        end_ns=0,
        jobs=(),
    )


def _since(logged: LoggedRun, began_ns: int, names: Sequence[str]) -> LoggedRun:
    """The part of the log that concerns these jobs, with times from the start of the run."""
    known = {job.name for job in logged.header.jobs if job.name in names}
    entries = tuple(
        _earlier(entry, began_ns)
        for entry in logged.entries
        if entry.at_ns >= began_ns and (_job_of(entry) is None or _job_of(entry) in known)
    )
    header: Header = msgspec.structs.replace(
        logged.header,
        jobs=tuple(job for job in logged.header.jobs if job.name in known),
        end_ns=entries[-1].at_ns if entries else 0,
    )
    return LoggedRun(header, entries, memory=_memory_since(logged.memory, began_ns))


def _memory_since(memory: Sequence[HeldMemory], began_ns: int) -> tuple[HeldMemory, ...]:
    """The bytes held from the start of the run on, beginning with the bytes held at the start."""
    first = max(bisect_right(memory, began_ns, key=lambda held: held.at_ns) - 1, 0)
    return tuple(HeldMemory(max(held.at_ns - began_ns, 0), held.held_bytes) for held in memory[first:])


def _job_of(entry: Entry) -> str | None:
    return getattr(getattr(entry, "action", entry), "job", None)


def _earlier(entry: Entry, by_ns: int) -> Entry:
    changed: Entry = msgspec.structs.replace(entry, at_ns=entry.at_ns - by_ns)
    if arrivals_ns := getattr(entry, "arrivals_ns", ()):
        changed = msgspec.structs.replace(changed, arrivals_ns=tuple(at_ns - by_ns for at_ns in arrivals_ns))
    return changed
