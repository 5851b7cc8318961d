"""Jobs that join the ledger and leave it while it is in use."""

from __future__ import annotations

import pytest

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.job import Job, JobState
from neaptide.core.control.ledger import Ledger
from tides import MIB, tide


def _arrived(ledger: Ledger, name: str) -> None:
    ledger.add(Job(name=name, trace=tide(name)))
    ledger.apply(ev.JobArrived(1, name))


def test_a_job_that_was_added_can_arrive_and_be_admitted() -> None:
    ledger = Ledger((), 2000 * MIB)
    _arrived(ledger, "a")
    assert ledger.refusal(act.Admit("a"), 2) is None
    ledger.commit(act.Admit("a"), 2)
    assert ledger.account("a").state is JobState.READY


def test_a_name_is_free_again_when_its_job_has_ended() -> None:
    ledger = Ledger((), 2000 * MIB)
    _arrived(ledger, "a")
    with pytest.raises(ValueError, match="there is a job called a already; give this one another name"):
        ledger.add(Job(name="a", trace=tide("a")))
    ledger.apply(ev.JobFailed(2, "a", "killed"))
    _arrived(ledger, "a")
    assert ledger.account("a").state is JobState.QUEUED
    ledger.apply(ev.JobFailed(3, "a", "killed"))
    ledger.forget("a")
    assert not ledger.knows("a")


def test_an_iteration_that_ended_while_its_job_was_being_suspended_is_not_run_again() -> None:
    ledger = Ledger((), 2000 * MIB)
    _arrived(ledger, "a")
    for action in (act.Admit("a"), act.Start("a"), act.Suspend("a")):
        assert ledger.refusal(action, 2) is None
        ledger.commit(action, 2)
    ledger.apply(ev.IterationEnded(3, "a", 1))
    assert ledger.account("a").state is JobState.SUSPENDED
    ledger.commit(act.Resume("a"), 4)
    assert ledger.account("a").state is JobState.READY
    assert ledger.account("a").iterations_done == 1


def test_slowdowns_beside_others_follow_a_corrected_time_alone() -> None:
    ledger = Ledger((), 2000 * MIB)
    _arrived(ledger, "a")
    account = ledger.account("a")
    account.beside = {"b": 0.5}  # half of the time alone: that was wrong
    ledger.apply(ev.JobMeasured(2, "a", account.profile.solo_ns // 4))
    assert account.beside == {"b": pytest.approx(2.0)}
