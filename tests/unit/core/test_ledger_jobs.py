"""Jobs that join the ledger and leave it while it is in use."""

from __future__ import annotations

import pytest

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.job import Job, JobState
from neaptide.core.control.ledger import Ledger
from neaptide.core.units import format_bytes
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


def test_a_limit_is_refused_on_a_device_without_overflow_and_inside_an_iteration() -> None:
    without, ledger = Ledger((), 2000 * MIB), Ledger((), 2000 * MIB, overflow=True)
    for each in (without, ledger):
        _arrived(each, "a")
    limit = act.SetLimit("a", ledger.account("a").profile.persistent_bytes)
    assert without.refusal(limit, 2) == "the device has no overflow"
    assert ledger.refusal(limit, 2) is None
    ledger.commit(act.Admit("a"), 2)
    ledger.commit(act.Suspend("a"), 3)
    assert ledger.refusal(limit, 3) is None  # suspended between two iterations
    for action in (act.Resume("a"), act.Start("a")):
        ledger.commit(action, 4)
    assert ledger.refusal(limit, 5) == "it is inside an iteration"
    ledger.commit(act.Suspend("a"), 6)
    assert ledger.refusal(limit, 7) == "it is inside an iteration"


def test_a_limited_job_counts_with_what_it_may_hold_on_the_device() -> None:
    ledger = Ledger((), 2000 * MIB, overflow=True)
    for name in "ab":
        _arrived(ledger, name)
    whole = ledger.account("a").profile
    ledger.apply(ev.BudgetChanged(2, whole.persistent_bytes + whole.peak_bytes - 1))
    ledger.commit(act.Admit("a"), 3)
    assert ledger.refusal(act.Admit("b"), 3) == "it would need 1 B more than the budget"
    limited = act.SetLimit("a", whole.peak_bytes - 1), act.SetLimit("b", whole.peak_bytes - 1)
    for action in (*limited, act.Admit("b")):
        assert ledger.refusal(action, 4) is None
        ledger.commit(action, 4)
    assert ledger.account("b").profile.peak_bytes == whole.peak_bytes - 1
    assert ledger.refusal(act.SetLimit("a", None), 5) == "it would need 1 B more than the budget"


def test_a_job_may_always_be_limited_to_less_even_while_the_jobs_do_not_fit() -> None:
    ledger = Ledger((), 2000 * MIB, overflow=True)
    for name in "ab":
        _arrived(ledger, name)
        ledger.commit(act.Admit(name), 2)
    whole = ledger.account("a").profile
    ledger.apply(ev.BudgetChanged(3, whole.peak_bytes))  # both do not fit any more
    less = act.SetLimit("a", whole.peak_bytes - 2)
    assert ledger.refusal(less, 4) is None
    ledger.commit(less, 4)
    more = act.SetLimit("a", whole.peak_bytes - 1)
    assert ledger.refusal(more, 5) == f"it would need {format_bytes(whole.persistent_bytes)} more than the budget"


def test_what_is_learnt_of_a_limited_job_is_kept_for_when_the_limit_goes() -> None:
    ledger = Ledger((), 2000 * MIB, overflow=True)
    _arrived(ledger, "a")
    account = ledger.account("a")
    whole = account.profile
    ledger.commit(act.SetLimit("a", whole.persistent_bytes), 2)
    ledger.apply(ev.JobMeasured(3, "a", 2 * whole.solo_ns))
    assert (account.profile.ephemeral_bytes, account.profile.solo_ns) == (0, 2 * whole.solo_ns)
    ledger.commit(act.SetLimit("a", None), 4)
    assert (account.profile.peak_bytes, account.profile.solo_ns) == (whole.peak_bytes, 2 * whole.solo_ns)
