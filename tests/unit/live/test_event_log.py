"""The daemon's log: rotated when it is large, and no reason to stop when the disk is full."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec

from neaptide.core.control.events import BudgetChanged, JobArrived, PhaseEnded, Woken
from neaptide.core.control.log_format import Header, Joined, Line, encode_line
from neaptide.core.traces.trace import Phase
from neaptide.live.daemon.io.log_writer import EventLog
from neaptide.reporting.logs.log_file import read_runs
from outcomes import job


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
    (run,) = read_runs(link)
    assert (run.entries, run.lost_lines) == ((Woken(6),), 3)


def test_a_log_begins_with_what_was_true_before_its_first_line(tmp_path: Path) -> None:
    budget_bytes = [5]
    header = next(iter(_opening()))
    assert isinstance(header, Header)
    log = EventLog(
        tmp_path / "events.jsonl", lambda: [msgspec.structs.replace(header, budget_bytes=budget_bytes[0])], print
    )
    log.note(Woken(1))
    budget_bytes[0] = 7  # an event that is noted later changes it
    log.note(BudgetChanged(2, 7, 7))
    log.flush()
    (run,) = read_runs(tmp_path / "events.jsonl")
    assert run.header.budget_bytes == 5


def test_a_full_disk_tears_no_line(tmp_path: Path) -> None:
    path, most_bytes = tmp_path / "events.jsonl", 1_000
    child = os.fork()
    if child == 0:  # a process whose files cannot grow further stands for a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        log = EventLog(path, _opening, lambda _: None)
        for at_ns in range(100):
            log.note(Woken(at_ns))
            log.flush()
        os._exit(0)
    os.waitpid(child, 0)
    assert most_bytes - 100 < path.stat().st_size <= most_bytes
    assert path.read_bytes().endswith(b"\n")
    (run,) = read_runs(path)
    assert run.entries == tuple(Woken(at_ns) for at_ns in range(len(run.entries)))


def test_a_log_that_could_not_be_written_for_a_while_names_its_jobs_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    joined: list[Line] = []
    log = EventLog(path, lambda: [*_opening(), *joined], lambda _: None)
    log.note(Woken(1))
    log.flush()
    path.rename(tmp_path / "kept")
    path.mkdir()  # nothing can be written to it
    joined.append(Joined(at_ns=2, facts=job("a"), pid=1))
    log.note(joined[0])
    log.flush()
    path.rmdir()
    (tmp_path / "kept").rename(path)
    log.note(JobArrived(3, "a"))
    log.flush()
    (run,) = read_runs(path)
    assert (run.entries, run.lost_lines) == ((Woken(1), JobArrived(3, "a")), 1)
    assert [facts.name for facts in run.header.jobs] == ["a"]


def test_a_last_line_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [*_opening(), Woken(1), Woken(2)]
    path.write_bytes(b"".join(encode_line(line) + b"\n" for line in lines)[:-4])
    (run,) = read_runs(path)
    assert run.entries == (Woken(1),)
