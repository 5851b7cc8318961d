"""Event log files: what is written can be read back, and the metrics computed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neaptide import __version__
from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Handled, Refused
from neaptide.core.control.engine import Observation
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import Header, JobFacts, decode_line, encode_line
from neaptide.core.traces.trace import Phase
from neaptide.reporting.logs.log_file import log_lines, read_runs, write_log

HEADER = Header(
    scenario="two.toml",
    policy="zico",
    seed=3,
    device="V100-16GB",
    budget_bytes=100,
    end_ns=9,
    jobs=(
        JobFacts(
            name="a", kind=JobKind.TRAINING, iterations=None, solo_ns=5, batch=1, persistent_bytes=1, peak_bytes=2
        ),
    ),
)
ENTRIES: tuple[Entry, ...] = (
    ev.JobArrived(0, "a"),
    ev.RequestArrived(0, "a"),
    ev.CallWithdrawn(1, "a"),
    ev.RequestArrived(1, "a", arrived_ns=0, expected=True, tracked=True),
    ev.RequestCalled(1, "a", 0, joins=True),
    ev.RequestAnswered(1, "a", 0, 1),
    Decided(0, act.Admit("a", lane=1)),
    Decided(0, act.Start("a")),
    Decided(0, act.SetPlan("a", 1)),
    Decided(0, act.SetGate("a", False)),
    Decided(0, act.CapInFlight("a", None)),
    Decided(0, act.MoveLane("a", 2)),
    Decided(0, act.SizeLane(2, 40)),
    Decided(0, act.SetClass("a", True)),
    Decided(0, act.SetShare("a", 0.5)),
    Decided(0, act.SetLimit("a", 7)),
    Decided(0, act.SetLimit("a", None)),
    Decided(0, act.Suspend("a")),
    Decided(0, act.Resume("a")),
    Decided(1, act.WakeAt(8)),
    Refused(1, act.Start("a"), "it is not ready"),
    ev.PhaseEnded(2, "a", Phase.BACKWARD),
    ev.IterationEnded(3, "a", 3, (0,)),
    ev.JobStalled(4, "a"),
    ev.JobGrew(4, "a", 60),
    ev.JobMeasured(4, "a", 17),
    ev.JobEvicted(4, "a"),
    ev.JobSuspended(5, "a"),
    ev.JobResumed(6, "a"),
    ev.BudgetChanged(7, 50),
    ev.Woken(8),
    ev.JobEnded(9, "a"),
    ev.JobFailed(9, "a", "out of memory"),
    ev.JobLeft(9, "a"),
)


def test_the_entries_of_these_tests_include_every_kind_of_event_and_action() -> None:
    seen = {type(entry) for entry in ENTRIES} | {
        type(entry.action) for entry in ENTRIES if isinstance(entry, Decided | Refused)
    }
    assert seen >= {*ev.Event.__subclasses__(), *act.Action.__subclasses__()}


def test_runs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path, [(HEADER, ENTRIES), (HEADER, ENTRIES[:1])])
    first, second = read_runs(path)
    assert (first.header, first.entries) == (HEADER, ENTRIES)
    assert second.entries == ENTRIES[:1]


def test_the_line_of_an_event_holds_the_observation_of_the_daemon(tmp_path: Path) -> None:
    handled = Handled(ev.PhaseEnded(2, "a", Phase.BACKWARD), {"a": Observation(5, 70), "b": Observation(0, 1)})
    line = encode_line(handled)
    assert json.loads(line) == {
        "event": "phase_ended",
        "at_ns": 2,
        "job": "a",
        "phase": "backward",
        "seen": {"a": [5, 70], "b": [0, 1]},
    }
    assert decode_line(line) == handled
    path = tmp_path / "log.jsonl"
    path.write_bytes(encode_line(HEADER) + b"\n" + line + b"\n")
    assert read_runs(path)[0].entries == (handled.event,)


def test_a_log_of_another_format_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(encode_line(HEADER).replace(b'"format":2', b'"format":1') + b"\n")
    with pytest.raises(ValueError, match=r"log.jsonl: the log has format 1, and this version .* reads format 2"):
        read_runs(path)


def test_the_first_line_is_the_header_of_the_run() -> None:
    said = json.loads(next(log_lines(HEADER, ENTRIES)))
    wanted = {"log": "run", "format": 2, "version": __version__, "scenario": "two.toml", "policy": "zico", "seed": 3}
    assert wanted.items() <= said.items()


def test_a_phase_is_written_by_its_name() -> None:
    line = list(log_lines(HEADER, [ev.PhaseEnded(2, "a", Phase.BACKWARD)]))[1]
    assert line == b'{"event":"phase_ended","at_ns":2,"job":"a","phase":"backward"}'


@pytest.mark.parametrize(
    "line", ["", "3", "{}", '{"event":"unheard_of"}', '{"event":"job_arrived"}', '{"log":"decided"}']
)
def test_the_error_names_a_line_that_is_not_an_entry(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path, [(HEADER, ENTRIES[:1])])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=r"log\.jsonl, line 3: not an entry of an event log"):
        read_runs(path)


def test_a_log_without_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event":"job_arrived","at_ns":0,"job":"a"}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_runs(path)
