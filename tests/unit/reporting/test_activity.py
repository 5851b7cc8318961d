"""How jobs spent their time, and the sentences about notable entries."""

from __future__ import annotations

import pytest

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.job import INTERRUPTION, JobState
from neaptide.core.units import GIB
from neaptide.reporting.logs.activity import StateSpan, spans_of, total_ns
from neaptide.reporting.logs.event_words import notable_entries


def test_a_job_is_queued_then_waits_and_runs() -> None:
    entries = (
        ev.JobArrived(0, "a"),
        Refused(1, act.Start("a"), "it is not ready"),
        Decided(5, act.Admit("a")),
        Decided(7, act.Start("a")),
        ev.IterationEnded(17, "a", 10),
        Decided(20, act.Start("a")),
        ev.IterationEnded(30, "a", 10),
        ev.JobEnded(30, "a"),
    )
    spans = spans_of(entries, 99)["a"]
    assert [(span.state.value, span.start_ns, span.end_ns) for span in spans] == [
        ("queued", 0, 5),
        ("ready", 5, 7),
        ("running", 7, 17),
        ("ready", 17, 20),
        ("running", 20, 30),
    ]
    assert dict(total_ns(spans)) == {JobState.QUEUED: 5, JobState.READY: 5, JobState.RUNNING: 20, JobState.SUSPENDED: 0}


def test_a_resumed_job_does_what_it_did_before_its_suspension() -> None:
    entries = (
        ev.JobArrived(0, "a"),
        Decided(0, act.Admit("a")),
        Decided(0, act.Start("a")),
        ev.JobEvicted(5, "a"),
        ev.JobSuspended(6, "a"),
        ev.JobResumed(9, "a"),
    )
    assert spans_of(entries, 12)["a"] == [
        StateSpan(JobState.RUNNING, 0, 5),
        StateSpan(JobState.SUSPENDED, 5, 6),
        StateSpan(JobState.SUSPENDED, 6, 9),
        StateSpan(JobState.RUNNING, 9, 12),
    ]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (ev.JobGrew(0, "a", GIB), "a needs more memory than before: 1.00 GiB"),
        (ev.JobMeasured(0, "a", 2_000_000), "a was measured again: 2.00 ms an iteration alone"),
        (ev.JobEvicted(0, "a"), "a was evicted to host memory, to make room for another job"),
        (ev.JobEvicted(0, "a", unresponsive=True), "a does not respond; other jobs do not wait for it"),
        (ev.JobSuspended(0, "a"), "a is in host memory"),
        (ev.JobResumed(0, "a"), "a is back on the device"),
        (ev.JobEnded(0, "a"), "a ended"),
        (ev.JobFailed(0, "a", ""), "a failed"),
        (ev.JobFailed(0, "a", INTERRUPTION), "a was interrupted"),
        (ev.JobLeft(0, "a"), "a goes on without the daemon, and may join again"),
        (
            ev.BudgetChanged(0, GIB, 4 * GIB),
            "of the 4.00 GiB, jobs that are new or do not respond leave 1.00 GiB to the others",
        ),
        (Decided(0, act.Admit("a")), "a admitted"),
        (Decided(0, act.MoveLane("a", 3)), "a moved to lane 3"),
        (Decided(0, act.SizeLane(3, GIB)), "lane 3 has 1.00 GiB"),
        (Decided(0, act.SizeLane(3, 0)), "lane 3 is closed"),
        (Decided(0, act.SetPlan("a", 2)), "a follows plan 2"),
        (Decided(0, act.Suspend("a")), "the policy suspends a"),
        (Decided(0, act.Resume("a")), "the policy resumes a"),
    ],
)
def test_each_notable_entry_has_its_words(entry: Entry, words: str) -> None:
    assert list(notable_entries([entry])) == [(0, words)]


def test_notable_entries_are_sentences_and_iterations_are_left_out() -> None:
    entries = (
        ev.JobArrived(0, "a"),
        Decided(1, act.Admit("a", lane=2, ceiling_bytes=GIB)),
        Decided(1, act.Start("a")),
        ev.IterationEnded(2, "a", 1),
        ev.JobStalled(3, "a"),
        Refused(3, act.Suspend("a"), "it is not admitted"),
        ev.BudgetChanged(4, 2 * GIB),
        ev.JobFailed(5, "a", "out of memory"),
    )
    assert list(notable_entries(entries)) == [
        (0, "a arrived"),
        (1, "a admitted to lane 2, up to 1.00 GiB"),
        (3, "a waits for memory inside an iteration"),
        (3, "refused: the policy suspends a: it is not admitted"),
        (4, "the budget is 2.00 GiB"),
        (5, "a failed: out of memory"),
    ]
