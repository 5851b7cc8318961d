"""Salus: who is admitted to which lane, and whose iteration is next."""

from __future__ import annotations

import pytest

from neaptide.core.control.actions import Action, Admit, MoveLane, Resume, SizeLane, Start, Suspend, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.profile import Profile
from neaptide.policies.salus import Order, Salus
from views import job, tide, view

SERVING = {"kind": JobKind.INFERENCE, "requests": (0,)}
TURNS = [Order.SRTF, Order.FAIR, Order.ROUND_ROBIN]

PATIENT = Salus(patience=20.0, short_ns=10)


def need(ephemeral: int, persistent: int = 0, **facts: object) -> Profile:
    return tide(ephemeral, persistent=persistent, **facts)


def queued(name: str, ephemeral: int, persistent: int = 0, **facts: object) -> JobView:
    return job(name, need(ephemeral, persistent), state=JobState.QUEUED, **facts)


def decided(policy: Salus, seen: View) -> list[Action]:
    """What the policy decides, without the sizes of lanes."""
    return [action for action in policy.decide(seen) if not isinstance(action, SizeLane)]


class TestSizes:
    def test_a_lane_is_as_large_as_its_largest_member(self) -> None:
        sizes = [act for act in Salus(Order.FAIR).decide(view(queued("a", 20), queued("b", 60))) if sized(act)]
        assert sizes == [SizeLane(0, 60)]

    def test_lanes_shrink_and_close_before_others_grow(self) -> None:
        jobs = [job("a", need(30), lane=0), queued("b", 60)]
        sizes = [act for act in Salus().decide(view(*jobs, lanes={0: 50, 1: 10, 2: 40})) if sized(act)]
        assert sizes == [SizeLane(0, 30), SizeLane(2, 0), SizeLane(1, 60)]

    def test_a_lane_whose_jobs_were_evicted_has_no_bytes(self) -> None:
        evicted = job("a", need(60), lane=0, state=JobState.SUSPENDED, evicted=True)
        assert SizeLane(0, 0) in Salus().decide(view(evicted, lanes={0: 60}))

    def test_merged_lanes_get_what_fits_until_their_iterations_have_ended(self) -> None:
        two = [job(name, need(40), lane=lane, state=JobState.RUNNING) for lane, name in enumerate("ab")]
        sizes = [act for act in Salus().decide(view(*two, budget=60, lanes={0: 40, 1: 40})) if sized(act)]
        assert sizes == [SizeLane(1, 0), SizeLane(0, 60)]


def sized(action: Action) -> bool:
    return isinstance(action, SizeLane)


class TestLanes:
    def test_pack_runs_as_many_jobs_at_once_as_fit(self) -> None:
        jobs = [queued("a", 40), queued("b", 40), queued("c", 20)]
        assert decided(Salus(), view(*jobs)) == [
            *(Admit(name, lane) for lane, name in enumerate("abc")),
            *(Start(name) for name in "abc"),
        ]

    @pytest.mark.parametrize("order", TURNS)
    def test_the_other_orders_run_one_iteration_at_a_time(self, order: Order) -> None:
        jobs = [queued("a", 40), queued("b", 40)]
        assert decided(Salus(order), view(*jobs)) == [Admit("a", 0), Admit("b", 0), Start("a")]

    def test_fifo_runs_whole_jobs_one_after_another(self) -> None:
        fifo = Salus(Order.FIFO)
        assert decided(fifo, view(queued("a", 1), queued("b", 1))) == [Admit("a", 0), Start("a")]
        assert decided(fifo, view(job("a", lane=0), queued("b", 1))) == [Start("a")]

    def test_a_lane_waits_for_its_running_iteration(self) -> None:
        running = job("a", need(60), lane=0, state=JobState.RUNNING)
        assert decided(Salus(Order.FAIR), view(running, queued("b", 50))) == [Admit("b", 0)]

    def test_under_pack_a_job_waits_for_a_lane_of_its_own(self) -> None:
        running = job("a", need(60), lane=0, state=JobState.RUNNING)
        assert decided(Salus(), view(running, queued("b", 50), queued("c", 40))) == [Admit("c", 1), Start("c")]

    def test_a_job_larger_than_the_device_delays_no_other_job(self) -> None:
        for order in Order:
            assert Admit("b", 0) in decided(Salus(order), view(queued("a", 101), queued("b", 1), now=10**15))

    def test_a_job_that_shares_a_lane_moves_out_when_there_is_room_again(self) -> None:
        shared = view(job("a", need(40), lane=0, state=JobState.RUNNING), job("b", need(40), lane=0))
        assert decided(Salus(), shared) == [MoveLane("b", 1), Start("b")]

    def test_a_smaller_budget_merges_lanes_and_then_suspends_the_youngest_job(self) -> None:
        two = [job("a", need(40, 10), lane=0), job("b", need(40, 10), lane=1, arrived_ns=1)]
        assert decided(Salus(), view(*two, budget=60)) == [MoveLane("b", 0), Start("a")]
        assert decided(Salus(), view(*two, budget=55)) == [Suspend("b")]
        away = job("b", need(40, 10), lane=1, state=JobState.SUSPENDED)
        assert decided(Salus(), view(two[0], away, budget=100)) == [Resume("b"), Start("a"), Start("b")]
        assert decided(Salus(Order.FAIR), view(two[0], away, budget=60)) == [Resume("b"), MoveLane("b", 0), Start("a")]

    def test_no_job_takes_the_place_of_an_evicted_one(self) -> None:
        evicted = job("a", need(60, 10), lane=0, state=JobState.SUSPENDED, evicted=True, position_ns=5)
        assert decided(Salus(), view(evicted, queued("b", 60, 10))) == []
        assert decided(Salus(), view(evicted, queued("b", 10, 10))) == [Admit("b", 1), Start("b")]

    @pytest.mark.parametrize("order", Order)
    def test_a_ready_job_is_suspended_for_an_evicted_one(self, order: Order) -> None:
        evicted = job("a", need(60, 10), lane=0, state=JobState.SUSPENDED, evicted=True, position_ns=5)
        endless = job("b", need(40, 40), lane=0, arrived_ns=1)
        assert decided(Salus(order), view(evicted, endless)) == [Suspend("b")]


class TestInference:
    """FACTS 3: 42 instances, 14 models three times, need 9,758 MB + 3,271 MB in one lane, 77.1 GB as a sum of peaks."""

    def test_42_instances_fit_one_16_gb_device(self) -> None:
        ephemeral = [3271, 2900, 2700, 2400, 2200, 1900, 1700, 1500, 1200, 1000, 700, 500, 300, 177]
        persistent = [900, 700, 500, 300, 250, 150, 120, 100, 80, 60, 40, 25, 20, 7]
        instances = [
            queued(f"{model}.{copy}", ephemeral[model], size + (model < 2 and copy == 0), **SERVING)
            for copy in range(3)
            for model, size in enumerate(persistent)
        ]
        assert sum(each.profile.persistent_bytes for each in instances) == 9758
        assert sum(each.profile.peak_bytes for each in instances) > 77_000
        for order in (Order.PACK, *TURNS):
            for budget, fits in ((16_000, 42), (9758 + 3271, 42), (9758 + 3270, 41)):
                admitted = [
                    act for act in decided(Salus(order), view(*instances, budget=budget)) if isinstance(act, Admit)
                ]
                assert len(admitted) == fits
                assert {action.lane for action in admitted} == {0}

    def test_an_instance_that_was_suspended_inside_a_batch_comes_back(self) -> None:
        inside = job("a", need(40), lane=0, state=JobState.SUSPENDED, kind=JobKind.INFERENCE, serving=(0,))
        assert decided(Salus(), view(inside)) == [Resume("a")]

    def test_lanes_of_training_jobs_merge_for_an_instance(self) -> None:
        training = [job("a", need(50), lane=0), job("b", need(50), lane=1)]
        serving = queued("c", 10, 20, **SERVING)
        assert decided(Salus(), view(*training, serving)) == [MoveLane("b", 0), Admit("c", 1), Start("a"), Start("c")]


class TestTurns:
    def test_pack_runs_the_longest_job_of_a_lane_first(self) -> None:
        jobs = [job("a", need(90), lane=0, iterations_left=2), job("b", need(90), lane=0, iterations_left=3)]
        assert decided(Salus(), view(*jobs)) == [Start("b")]

    def test_srtf_runs_the_shortest_first(self) -> None:
        jobs = [job("a", lane=0, iterations_left=3), job("b", lane=0, iterations_left=2)]
        assert decided(Salus(Order.SRTF), view(*jobs)) == [Start("b")]

    def test_srtf_preempts_at_the_end_of_an_iteration(self) -> None:
        long = job("a", lane=0, iterations_left=9)
        running = job("a", lane=0, iterations_left=9, state=JobState.RUNNING)
        short = queued("b", 1, iterations_left=1)
        assert decided(Salus(Order.SRTF), view(running, short)) == [Admit("b", 0)]
        assert decided(Salus(Order.SRTF), view(long, short)) == [Admit("b", 0), Start("b")]

    def test_fair_runs_the_least_served_first(self) -> None:
        jobs = [job("a", lane=0, share_ns=30), job("b", lane=0, share_ns=20)]
        assert decided(Salus(Order.FAIR), view(*jobs)) == [Start("b")]

    def test_round_robin_runs_the_job_that_started_longest_ago(self) -> None:
        jobs = [job("a", lane=0, started_ns=7), job("b", lane=0, started_ns=5), job("c", lane=0, started_ns=6)]
        assert decided(Salus(Order.ROUND_ROBIN), view(*jobs)) == [Start("b")]

    @pytest.mark.parametrize("order", [Order.PACK, *TURNS])
    def test_a_higher_priority_goes_first(self, order: Order) -> None:
        jobs = [
            job("a", need(90), lane=0, iterations_left=1),
            job("b", need(90), lane=0, iterations_left=1, priority=1),
        ]
        assert decided(Salus(order), view(*jobs)) == [Start("b")]

    def test_a_suspended_job_takes_the_turn_of_less_urgent_jobs_only(self) -> None:
        away = job("a", need(90), state=JobState.SUSPENDED, iterations_left=9, arrived_ns=5)
        inside = job("b", need(90), lane=0, iterations_left=9, priority_ns=10**12)
        assert decided(Salus(), view(away, inside)) == [Start("b")]
        urgent = job("a", need(90), state=JobState.SUSPENDED, iterations_left=9, arrived_ns=5, priority=1)
        assert Resume("a") in decided(Salus(), view(urgent, inside, now=1))

    def test_a_job_whose_turn_it_is_displaces_none_that_has_come_this_moment(self) -> None:
        low = job("low", need(1, 4), lane=0, iterations_left=9, priority_ns=10**12)
        here = job("here", need(1, 80), lane=0, iterations_left=9, priority=1, lane_since_ns=7)
        away = job("away", need(1, 80), state=JobState.SUSPENDED, iterations_left=9, arrived_ns=5, priority=1)
        assert Suspend("here") not in decided(Salus(), view(low, here, away, now=7))
        assert Suspend("here") in decided(Salus(), view(low, here, away, now=8))


class TestFaultsOfTheOriginalAreGone:
    """FACTS 3, "Known faults of the original to fix"; those that need time to pass are in test_salus_runs.py."""

    def test_no_job_passes_a_large_one_that_has_waited_long_enough(self) -> None:
        lanes = [job("a", need(50), lane=0, state=JobState.RUNNING), job("b", need(40), lane=1, state=JobState.RUNNING)]
        large = queued("c", 80, 11, iterations_left=1)  # 10 ns long
        small = queued("d", 10, arrived_ns=1)
        assert decided(PATIENT, view(*lanes, large, small, now=200)) == [Admit("d", 2), Start("d")]
        assert decided(PATIENT, view(*lanes, large, small, now=201)) == [MoveLane("b", 0)]

    def test_lanes_merge_for_a_job_too_large_for_any_of_them(self) -> None:
        lanes = [job("a", need(50), lane=0, arrived_ns=900), job("b", need(40), lane=1, arrived_ns=900)]
        large = queued("c", 80, 10, iterations_left=3)
        assert decided(PATIENT, view(*lanes, large, now=1000)) == [MoveLane("b", 0), Admit("c", 0), Start("c")]

    def test_ready_jobs_are_suspended_where_merging_is_not_enough(self) -> None:
        lanes = [job(name, need(10, 20), lane=n, arrived_ns=900 + n) for n, name in enumerate("ab")]
        large = queued("c", 70, 10, iterations_left=3)
        assert decided(PATIENT, view(*lanes, large, now=1000)) == [Suspend("b"), Admit("c", 0), Start("c")]

    def test_a_shorter_job_takes_the_place_of_a_longer_one_under_srtf(self) -> None:
        long = job("a", need(80, 10), lane=0, iterations_left=9)
        short = queued("b", 20, 11, iterations_left=8)
        assert decided(Salus(Order.SRTF), view(long, short)) == [Suspend("a"), Admit("b", 0), Start("b")]
        longer = queued("b", 20, 11, iterations_left=10)
        assert decided(Salus(Order.SRTF), view(long, longer)) == [Start("a")]

    def test_a_job_of_unknown_length_does_not_go_first_under_srtf(self) -> None:
        jobs = [job("a", lane=0), job("b", lane=0, iterations_left=99)]
        assert decided(Salus(Order.SRTF), view(*jobs)) == [Start("b")]

    def test_a_job_that_has_run_longer_than_it_said_does_not_go_first_under_srtf(self) -> None:
        jobs = [job("a", lane=0, iterations_left=0), job("b", lane=0, iterations_left=99)]
        assert decided(Salus(Order.SRTF), view(*jobs)) == [Start("b")]

    def test_a_long_job_that_has_waited_long_enough_has_the_next_turn_under_srtf(self) -> None:
        jobs = [job("a", lane=0, iterations_left=100), job("b", lane=0, iterations_left=1, arrived_ns=19_990)]
        patient = Salus(Order.SRTF, patience=20.0, short_ns=1)
        assert decided(patient, view(*jobs, now=20_000)) == [Start("b")]
        assert decided(patient, view(*jobs, now=20_001)) == [Start("a")]

    @pytest.mark.parametrize("order", Order)
    def test_the_policy_never_asks_to_be_woken(self, order: Order) -> None:
        jobs = [job("a", need(50), lane=0), job("b", need(50), lane=1), queued("c", 80), queued("d", 99, 1)]
        for now in (0, 10**9, 10**15):
            assert not [act for act in decided(Salus(order), view(*jobs, now=now)) if isinstance(act, WakeAt)]

    def test_a_job_that_has_done_its_last_iteration_is_not_suspended(self) -> None:
        over = job("a", need(80, 10), lane=0, iterations_left=0)
        assert Suspend("a") not in decided(Salus(Order.SRTF), view(over, queued("b", 20, 11, iterations_left=8)))

    def test_jobs_of_equal_length_do_not_displace_each_other(self) -> None:
        here = job("a", need(80, 10), lane=0, iterations_left=9)
        assert decided(Salus(Order.SRTF), view(here, queued("b", 80, 11, iterations_left=9))) == [Start("a")]
