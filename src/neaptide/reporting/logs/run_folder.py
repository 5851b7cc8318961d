"""The folder of a live run: the daemon's log, the traces, how each job ended, and the report."""

from __future__ import annotations

import dataclasses
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Annotated

import msgspec

from neaptide.core.control.controller import Entry
from neaptide.core.control.events import Bytes, JobEnded, JobFailed, Nanoseconds
from neaptide.core.control.job import INTERRUPTION
from neaptide.core.control.log_format import Header, HeldMemory, Joined, encode_line
from neaptide.core.text import complain
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.run_jobs import RunRecord
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.log_file import LoggedRun, parse_runs, read_runs

RUN, EVENTS, REPORT, TRACES = "run.json", "events.jsonl", "report.html", "traces"
_RUNS = Path("neaptide-runs")
_HEADER = b'{"log":"run"'
_CUT_OFF = b"{}\n"  # what `run.json` has until the run is saved


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the facts of a run that the log does not have."""

    name: str
    began_ns: Nanoseconds  # when the jobs were started, on the clock of the log
    high_water_bytes: Bytes
    interrupted: bool
    results: tuple[JobResult, ...]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0  # the wall time; 0 in runs of earlier versions
    began_at: str = ""  # the date and time
    hardware: str = ""  # the device in words


class SavedRun(msgspec.Struct, frozen=True):
    """A run as its folder has it. Times in its log count from the start of the run."""

    file: RunFile
    logged: LoggedRun


def check_output_folder(folder: Path) -> None:
    """Raise ValueError if a run cannot have this folder: it is a file, or has files that are not a run's."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder for the run")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RUN).is_file():
        raise ValueError(f"{folder} is not empty and has no earlier run; name another folder")


@contextmanager
def folder_for_run(wanted: Path | None, name: str) -> Iterator[Path]:
    """The folder of a run, empty: `wanted`, or the first of name-1, name-2, ... below neaptide-runs that is new.

    An earlier run in it is deleted. When the run is refused, or ends before a job has started, the folder is removed.
    """
    if wanted is not None:
        check_output_folder(wanted)
        _clear(wanted)
        wanted.mkdir(parents=True, exist_ok=True)
    folder = _new_folder(name) if wanted is None else wanted
    try:
        (folder / RUN).write_bytes(_CUT_OFF)  # marks the folder as a run's even if the run is cut off
        yield folder
    except BaseException as error:
        if isinstance(error, ValueError) or not any(folder.glob("*.log")):
            _clear(folder)
            with suppress(OSError):  # it has files of other programs by now
                folder.rmdir()
                if wanted is None:
                    folder.parent.rmdir()
        raise


def _clear(folder: Path) -> None:
    for path in (*folder.glob("*.log"), *(folder / name for name in (RUN, EVENTS, REPORT))):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / TRACES, ignore_errors=True)


def _new_folder(name: str) -> Path:
    _RUNS.mkdir(exist_ok=True)
    for number in count(1):
        folder = _RUNS / f"{name}-{number}"
        with suppress(FileExistsError):  # also when another run makes it at this moment
            folder.mkdir()
            return folder
    raise AssertionError


def save_run(folder: Path, name: str, record: RunRecord, daemon: RuntimePaths) -> SavedRun:
    """Save a run: the daemon's log unchanged, and the jobs' traces, so that `neaptide replay` can replay the run.

    What cannot be read or written, as on a full disk, is complained about: the run itself is over and counts.
    """
    without_log = [encode_line(record.header) + b"\n"]
    try:
        lines = _last_run(daemon.events) or without_log
        logged = parse_runs(lines, str(daemon.events))[-1]
    except (OSError, ValueError) as error:
        complain(f"the daemon's log cannot be read: {error}")
        logged = parse_runs(without_log, "")[-1]
    file = RunFile(
        name=name,
        began_ns=record.began_ns,
        high_water_bytes=record.high_water_bytes,
        interrupted=record.interrupted,
        results=record.results,
        seconds=record.seconds,
        began_at=record.began_at,
        hardware=record.hardware,
    )
    try:
        (folder / RUN).write_bytes(msgspec.json.format(msgspec.json.encode(file)) + b"\n")
        (folder / EVENTS).write_bytes(b"".join(lines))
        for joined in logged.joined:
            (folder / TRACES).mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # the daemon could not write it
                shutil.copyfile(daemon.traces / joined.trace, folder / TRACES / joined.trace)
    except OSError as error:
        complain(f"the run could not be saved completely in {folder}: {error.strerror}")
    return _saved(file, logged)


def read_run(folder: Path) -> SavedRun:
    """Read a run; ValueError if the folder has none."""
    if not (folder / RUN).is_file():
        raise ValueError(f"{folder} is not the folder of a run; neaptide run prints the folder that it writes")
    try:
        written = (folder / RUN).read_bytes()
        if written == _CUT_OFF:
            raise ValueError("it was cut off, or is not over yet")
        file = msgspec.json.decode(written, type=RunFile)
        if not (folder / EVENTS).is_file():
            raise ValueError(f"{EVENTS} is missing")
        if not (runs := read_runs(folder / EVENTS)):
            raise ValueError(f"{EVENTS} has no whole line")
        return _saved(file, runs[-1])
    except (msgspec.MsgspecError, ValueError, OSError, IndexError) as error:
        raise ValueError(f"{folder}: the run was not saved completely: {error}") from None


def _saved(file: RunFile, logged: LoggedRun) -> SavedRun:
    results = {result.name: result for result in file.results}
    logged = dataclasses.replace(logged, entries=tuple(_as_it_ended(entry, results) for entry in logged.entries))
    return SavedRun(file, _since(logged, file.began_ns, list(results)))


def _as_it_ended(entry: Entry, results: Mapping[str, JobResult]) -> Entry:
    """The entry, where a failure is replaced by how the process ended: the daemon only knows that it said nothing."""
    result = results.get(entry.job) if isinstance(entry, JobFailed) else None
    if result is None or result.failed:
        return entry
    assert isinstance(entry, JobFailed)
    if result.asked_to_end:
        return msgspec.structs.replace(entry, reason=INTERRUPTION)
    return JobEnded(entry.at_ns, entry.job, entry.waited_ns, entry.stalled_ns)


def _last_run(log: Path) -> list[bytes]:
    """The lines of the daemon's latest run; none when the daemon could write no log."""
    if not log.is_file():
        return []
    lines = log.read_bytes().splitlines(keepends=True)
    headers = [index for index, line in enumerate(lines) if line.startswith(_HEADER)]
    return lines[headers[-1] :] if headers else []


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
    return LoggedRun(
        header,
        entries,
        joined=tuple(_joined_since(each, began_ns) for each in logged.joined if each.facts.name in known),
        memory=_memory_since(logged.memory, began_ns),
        lost_lines=logged.lost_lines,
    )


def _joined_since(joined: Joined, began_ns: int) -> Joined:
    since: Joined = msgspec.structs.replace(joined, at_ns=max(joined.at_ns - began_ns, 0))
    return since


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
    if (arrived_ns := getattr(entry, "arrived_ns", None)) is not None:
        changed = msgspec.structs.replace(changed, arrived_ns=max(arrived_ns - by_ns, 0))
    return changed
