"""Gandiva: slices in turn, guests beside the owner on trial, and out again when measured time says so."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.actions import Admit, MoveLane, Resume, Start, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.gandiva import Gandiva
from views import job, tide, view

SECOND = 10**9
LARGE, SMALL = tide(60), tide(30)


def owner(name: str = "a", **facts: Any) -> JobView:
    return job(name, facts.pop("plan_", LARGE), **{"lane": 0, **facts})


def guest(name: str = "b", **facts: Any) -> JobView:
    return job(name, facts.pop("plan_", SMALL), **{"lane": 1, "lane_since_ns": 1, **facts})


def queued(name: str, profile: Any = LARGE, **facts: Any) -> JobView:
    return job(name, profile, state=JobState.QUEUED, **facts)


class TestSlices:
    def test_the_first_job_owns_the_device(self) -> None:
        assert Gandiva().decide(view(queued("a"), queued("b"))) == [Admit("a", 0), Start("a")]

    def test_the_owner_keeps_the_device_for_its_slice(self) -> None:
        assert Gandiva().decide(view(owner(), queued("b"), now=59 * SECOND)) == [Start("a")]

    def test_after_its_slice_the_owner_is_suspended_for_the_job_that_waited_longest(self) -> None:
        away = job("c", LARGE, state=JobState.SUSPENDED, lane=0, since_ns=3)
        actions = Gandiva().decide(view(owner(), queued("b", since_ns=5), away, now=60 * SECOND))
        assert actions == [Suspend("a"), Resume("c"), MoveLane("c", 0), Start("c")]

    def test_a_running_iteration_is_not_cut(self) -> None:
        assert Gandiva().decide(view(owner(state=JobState.RUNNING), queued("b"), now=60 * SECOND)) == []

    def test_an_owner_without_competitors_goes_on(self) -> None:
        assert Gandiva().decide(view(owner(), now=600 * SECOND)) == [Start("a")]

    def test_an_owner_without_work_loses_its_slice(self) -> None:
        idle = owner(kind=JobKind.INFERENCE)
        assert Gandiva().decide(view(idle, queued("b"))) == [Suspend("a"), Admit("b", 0), Start("b")]

    def test_an_idle_suspended_job_is_not_resumed(self) -> None:
        idle = job("b", kind=JobKind.INFERENCE, state=JobState.SUSPENDED)
        assert Gandiva().decide(view(owner(), idle, now=60 * SECOND)) == [Start("a")]


class TestPacking:
    def test_under_overload_the_job_with_the_lowest_utilisation_that_fits_becomes_the_guest(self) -> None:
        waiting = [queued("b", tide(41)), queued("c", tide(40)), queued("d", tide(40, utilisation=0.2))]
        assert Gandiva().decide(view(owner(), *waiting)) == [Admit("d", 1), Start("a"), Start("d")]

    def test_a_pair_that_pays_stays(self) -> None:
        pair = owner(beside={"b": 1.5}), guest(beside={"a": 1.5})
        assert Gandiva().decide(view(*pair, queued("c"))) == [Start("a"), Start("b")]

    def test_a_pair_of_which_one_job_is_slowed_down_much_stays_if_the_other_gains_more(self) -> None:
        """3/4 and 1/3 of their speeds are more than turns give; 3/4 and 1/4 are not."""
        assert Gandiva().decide(view(owner(beside={"b": 4 / 3}), guest(beside={"a": 3.0}), queued("c"))) == [
            *(Start("a"), Start("b"))
        ]
        assert Gandiva().decide(view(owner(beside={"b": 4 / 3}), guest(beside={"a": 4.0}), queued("c"))) == [
            *(Suspend("b"), Start("a"))
        ]

    def test_a_pair_that_hurts_is_unpacked(self) -> None:
        pair = owner(beside={"b": 2.0}), guest(beside={"a": 2.0})
        assert Gandiva().decide(view(*pair, queued("c"))) == [Suspend("b"), Start("a")]

    def test_a_pair_that_hurts_is_not_tried_again(self) -> None:
        away = guest(beside={"a": 2.0}, state=JobState.SUSPENDED)
        assert Gandiva().decide(view(owner(beside={"b": 2.0}), away)) == [Start("a")]

    def test_a_pair_is_not_judged_until_both_jobs_have_measured_it(self) -> None:
        pair = owner(beside={"b": 9.0}), guest()
        assert Gandiva().decide(view(*pair, queued("c"))) == [Start("a"), Start("b")]

    def test_a_guest_leaves_with_its_owner_so_that_no_job_starves(self) -> None:
        pair = owner(), guest(lane_since_ns=59 * SECOND)
        actions = Gandiva().decide(view(*pair, queued("c"), now=60 * SECOND))
        assert actions == [Suspend("a"), Suspend("b"), Admit("c", 0), Start("c")]

    def test_the_next_owner_waits_until_it_fits_beside_a_guest_that_still_runs(self) -> None:
        pair = owner(), guest(state=JobState.RUNNING)
        assert Gandiva().decide(view(*pair, queued("c", tide(80)), now=60 * SECOND)) == [Suspend("a")]

    def test_no_guest_is_admitted_beside_an_owner_whose_slice_is_over(self) -> None:
        assert Gandiva().decide(view(owner(state=JobState.RUNNING), queued("b", SMALL), now=60 * SECOND)) == []

    def test_a_guest_whose_owner_has_ended_owns_the_device_if_no_job_waits(self) -> None:
        assert Gandiva().decide(view(guest())) == [MoveLane("b", 0), Start("b")]


class TestBesideEvictedJobs:
    """A job that the engine has evicted is restored by the engine, in the place that it had."""

    def test_an_evicted_owner_keeps_its_slice_and_its_room(self) -> None:
        evicted = owner(state=JobState.SUSPENDED, evicted=True)
        assert Gandiva().decide(view(evicted, queued("b", tide(41)))) == []
        assert Gandiva().decide(view(evicted, queued("b", tide(40)))) == [Admit("b", 1), Start("b")]

    def test_an_evicted_guest_has_its_place_back_before_the_next_owner_comes(self) -> None:
        evicted = guest(state=JobState.SUSPENDED, evicted=True)
        pair = owner(), evicted
        assert Gandiva().decide(view(*pair, queued("c", tide(71)), now=60 * SECOND)) == [Suspend("a")]
        assert Gandiva().decide(view(evicted, now=60 * SECOND)) == []

    def test_an_evicted_job_that_fits_no_more_keeps_nobody_away(self) -> None:
        evicted = owner(state=JobState.SUSPENDED, evicted=True)
        assert Gandiva().decide(view(evicted, queued("b", tide(59)), budget=59)) == [Admit("b", 0), Start("b")]


class TestAfterABudgetCut:
    def test_the_guest_leaves_if_both_peaks_fit_no_more(self) -> None:
        pair = owner(state=JobState.RUNNING), guest()
        assert Gandiva().decide(view(*pair, budget=90)) == [Start("b")]
        assert Gandiva().decide(view(*pair, budget=89)) == [Suspend("b")]

    def test_an_owner_that_fits_no_more_leaves_and_no_job_takes_room_that_it_still_holds(self) -> None:
        assert Gandiva().decide(view(owner(), queued("b", tide(59)), budget=59)) == [
            *(Suspend("a"), Admit("b", 0), Start("b"))
        ]
        running = owner(state=JobState.RUNNING)
        assert Gandiva().decide(view(running, queued("b", tide(59)), budget=59)) == []
