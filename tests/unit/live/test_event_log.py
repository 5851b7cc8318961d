"""The daemon's log: rotated when it is large, and no reason to stop when the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neaptide.core.control.events import JobArrived, PhaseEnded, Woken
from neaptide.core.control.log_format import Header, Line
from neaptide.core.traces.trace import Phase
from neaptide.live.daemon.log_writer import EventLog
from neaptide.reporting.logs.log_file import read_runs


def _opening() -> Iterator[Line]:
    yield Header(scenario="live", policy="zico", seed=0, device="soft", budget_bytes=5, end_ns=0, jobs=())


def test_logged_lines_can_be_read_as_a_run(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", _opening, print)
    events = (JobArrived(1, "a"), PhaseEnded(5, "a", Phase.FORWARD), Woken(9))
    for event in events:
        log.note(event)
    log.flush()
    (run,) = read_runs(tmp_path / "events.jsonl")
    assert run.entries == events
    assert run.header.end_ns == 9


def test_a_new_log_keeps_the_old_one_beside_it(tmp_path: Path) -> None:
    for at_ns in range(6):
        log = EventLog(tmp_path / "events.jsonl", _opening, print)
        log.note(Woken(at_ns))
        log.flush()
    names = {path.name: read_runs(path)[0].entries for path in tmp_path.iterdir()}
    assert names == {
        "events.jsonl": (Woken(5),),
        "events.jsonl.1": (Woken(4),),
        "events.jsonl.2": (Woken(3),),
        "events.jsonl.3": (Woken(2),),
    }


def test_a_large_log_is_rotated_and_each_file_begins_with_a_header(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", _opening, print, largest_bytes=400)
    for at_ns in range(40):
        log.note(Woken(at_ns))
        log.flush()
    assert len(list(tmp_path.iterdir())) == 4
    assert all(path.stat().st_size < 500 for path in tmp_path.iterdir())
    assert [run.header.policy for path in tmp_path.iterdir() for run in read_runs(path)] == ["zico"] * 4


def test_a_full_disk_is_reported_once_and_writing_goes_on_when_it_can(tmp_path: Path) -> None:
    said: list[str] = []
    full = Path("/dev/full")
    link = tmp_path / "events.jsonl"
    log = EventLog(link, _opening, said.append)
    log.note(Woken(1))
    log.flush()
    link.unlink()
    link.symlink_to(full)
    for at_ns in range(2, 5):
        log.note(Woken(at_ns))
        log.flush()
    assert len(said) == 1
    assert "cannot be written: No space left on device" in said[0] == log.problem
    link.unlink()
    log.note(Woken(6))
    log.flush()
    assert said[1:] == [f"the event log {link} is written again"]
    assert log.problem == ""
    assert b'"at_ns":6' in link.read_bytes()
