from typing import Any

from neaptide.core.control.actions import (
    Action,
    Admit,
    CapInFlight,
    MoveLane,
    SetClass,
    SetGate,
    SetPlan,
    SizeLane,
    Start,
    Suspend,
    WakeAt,
)
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.policies.neaptide import Neaptide
from views import job, tide, view

QUEUED, READY, RUNNING = JobState.QUEUED, JobState.READY, JobState.RUNNING
MS = 1_000_000
TIDE = tide(20, 40, 60, 40, 20, step_ns=MS)
OTHER = tide(20, 40, 60, 40, 20, step_ns=MS, name="other")
SERVES = tide(5, step_ns=MS, batch=4, name="serves")
POLICY = Neaptide(early=0, spare=0.05)


def decide(seen: View) -> list[Action]:
    """Without the caps on kernels in flight, which are as zico's, and the lane of parts/request_memory.py."""
    return [action for action in POLICY.decide(seen) if not isinstance(action, CapInFlight | SizeLane | MoveLane)]


def serving(**facts: Any) -> JobView:
    given = {"kind": JobKind.INFERENCE, "deadline_ns": 100 * MS, "in_deadline_class": True, **facts}
    return job("serve", SERVES, **given)


def test_the_job_with_the_least_left_to_do_is_first() -> None:
    long, short = job("long", TIDE, iterations_left=9), job("short", OTHER, iterations_left=2)
    assert decide(view(long, short, budget=60))[0] == Start("short")


def test_a_job_that_has_waited_for_many_times_its_length_is_first() -> None:
    long, short = job("long", TIDE, iterations_left=9), job("short", OTHER, iterations_left=2, since_ns=440 * MS)
    assert decide(view(long, short, budget=60, now=450 * MS))[0] == Start("short")
    assert decide(view(long, short, budget=60, now=451 * MS))[0] == Start("long")


def test_a_larger_priority_goes_before_a_shorter_job() -> None:
    long, short = job("long", TIDE, iterations_left=9, priority=1), job("short", OTHER, iterations_left=2)
    assert decide(view(long, short, budget=60))[0] == Start("long")


def test_iterations_are_staggered_as_by_zico() -> None:
    assert decide(view(job("a", TIDE), job("b", OTHER), budget=80)) == [Start("a"), WakeAt(2 * MS)]
    running = job("a", TIDE, state=RUNNING, position_ns=2 * MS)
    assert decide(view(running, job("b", OTHER), budget=80)) == [Start("b")]


def test_a_short_job_takes_the_place_of_a_far_longer_one_that_fills_the_memory() -> None:
    filling = tide(60, step_ns=MS, persistent=40)
    seen = view(job("long", filling, iterations_left=9), job("short", filling, state=QUEUED, iterations_left=2))
    assert decide(seen) == [Suspend("long"), Admit("short"), Start("short")]


def test_large_jobs_run_in_pairs_and_small_ones_all_at_once() -> None:
    large = [job(name, tide(1, step_ns=MS, name=name, utilisation=0.8)) for name in "abc"]
    small = [job(name, tide(1, step_ns=MS, name=name, utilisation=0.3)) for name in "abcde"]
    assert decide(view(*large)) == [Start("a"), Start("b")]
    assert decide(view(*small)) == [Start(name) for name in "abcde"]


def test_any_number_of_small_jobs_runs_at_once_while_the_device_gains_by_each() -> None:
    def started(count: int, utilisation: float) -> int:
        jobs = [job(str(n), tide(1, step_ns=MS, name=str(n), utilisation=utilisation)) for n in range(count)]
        return len(decide(view(*jobs)))

    assert started(24, 0.125) == 24
    assert started(24, 0.3) == 9  # a tenth would add (1 - 0.3) / (1 + 9 * 0.3) of its speed, less than 0.2
    assert started(24, 0.6) == 3


def test_two_jobs_that_hurt_each_other_take_turns_and_are_tried_together_again_later() -> None:
    running = job("a", TIDE, state=RUNNING, beside={"b": 2.5}, iterations_done=5)
    hurt = job("b", OTHER, beside={"a": 2.5}, iterations_done=5)
    assert decide(view(running, hurt, budget=200)) == []
    assert decide(view(running, job("b", OTHER, beside={"a": 2.5}, iterations_done=64), budget=200)) == [Start("b")]
    assert decide(view(running, job("b", OTHER, beside={"a": 1.5}, iterations_done=5), budget=200)) == [Start("b")]


def test_no_job_starts_before_one_that_waits_for_its_turn() -> None:
    running = job("a", TIDE, state=RUNNING, beside={"b": 2.5}, iterations_done=5, iterations_left=7)
    hurt = job("b", OTHER, beside={"a": 2.5}, iterations_done=5, iterations_left=5)
    assert decide(view(running, hurt, job("c", TIDE, iterations_left=9, iterations_done=1), budget=200)) == []


def test_slowness_caused_by_waiting_for_memory_is_no_reason_to_take_turns() -> None:
    running = job("a", TIDE, state=RUNNING, beside={"b": 2.5}, iterations_done=5, position_ns=2 * MS)
    assert decide(view(running, job("b", OTHER, beside={"a": 2.5}, iterations_done=5), budget=119)) == [Start("b")]


def test_two_jobs_that_fill_the_device_take_turns_if_their_peaks_do_not_fit_together() -> None:
    def seen(utilisation: float, budget: int) -> View:
        profiles = [tide(20, 40, 60, 40, 20, step_ns=MS, name=name, utilisation=utilisation) for name in "ab"]
        return view(job("a", profiles[0], state=RUNNING, position_ns=2 * MS), job("b", profiles[1]), budget=budget)

    assert decide(seen(0.97, budget=80)) == []
    assert decide(seen(0.97, budget=200)) == decide(seen(0.9, budget=80)) == [Start("b")]


def test_two_equal_jobs_do_not_begin_in_step() -> None:
    assert decide(view(job("a", TIDE), job("b", TIDE), budget=200)) == [Start("a")]
    running = job("a", TIDE, state=RUNNING, position_ns=TIDE.forward_ns)
    assert decide(view(running, job("b", TIDE), budget=200)) == [Start("b")]
    early = job("a", TIDE, state=RUNNING, position_ns=0)
    assert decide(view(early, job("b", TIDE, iterations_done=1), budget=200)) == [Start("b")]


def test_samples_wait_for_a_full_batch_while_there_is_time_and_the_device_has_work() -> None:
    train = job("train", TIDE, state=RUNNING)
    waits = view(serving(requests=(0, 0)), train, budget=200)
    assert Start("serve") not in decide(waits)
    assert decide(waits)[-1] == WakeAt(70 * MS - 1_150_000)  # what is held in reserve, and the batch
    assert Start("serve") in decide(view(serving(requests=(0, 0, 0, 0)), train, budget=200))
    assert Start("serve") in decide(view(serving(requests=(0, 0)), train, budget=200, now=69 * MS))


def test_samples_are_served_at_once_when_the_device_has_nothing_else_to_do() -> None:
    assert decide(view(serving(requests=(0,)), budget=200))[0] == Start("serve")


def test_other_jobs_run_beside_a_batch_with_slack_and_their_heavy_ops_wait_without() -> None:
    batch = serving(state=RUNNING, serving=(0,), position_ns=0, reserve=0.05)
    train = job("train", TIDE, state=RUNNING, iterations_done=1)
    at_ns = 95 * MS - 1_150_000
    opened = SetGate("train", open=True, until_ns=at_ns)
    assert decide(view(batch, train, budget=200, now=10 * MS)) == [opened, WakeAt(at_ns)]
    closed = decide(view(batch, train, budget=200, now=94 * MS))
    assert closed[0] == SetGate("train", open=False)
    held = job("train", TIDE, state=RUNNING, iterations_done=1, gate_open=False)
    assert decide(view(serving(), held, budget=200, now=99 * MS)) == [SetGate("train", open=True)]


def test_gates_close_early_enough_for_other_jobs_ops_to_end() -> None:
    batch = serving(state=RUNNING, serving=(0,), position_ns=0, reserve=0.05)
    long_ops = tide(20, 40, 60, 40, 20, step_ns=MS, longest_ns=3 * MS)
    train = job("train", long_ops, state=RUNNING, iterations_done=1)
    at_ns = 92 * MS - 1_150_000
    assert decide(view(batch, train, budget=200, now=10 * MS))[-1] == WakeAt(at_ns)
    assert decide(view(batch, train, budget=200, now=at_ns))[0] == SetGate("train", open=False)


def test_memory_for_a_batch_is_kept_free() -> None:
    idle, running = serving(), job("a", TIDE, state=RUNNING, position_ns=2 * MS)
    assert decide(view(idle, running, job("b", OTHER), budget=85)) == [Start("b")]
    assert decide(view(idle, running, job("b", OTHER), budget=84)) == [WakeAt(MS)]


def test_a_job_takes_the_plan_that_serves_all_best() -> None:
    low = tide(*[20] * 6, step_ns=MS)
    wide = tide(*[60] * 6, step_ns=MS, name="wide")
    running = job("wide", wide, state=RUNNING)
    assert decide(view(running, job("a", TIDE, low), budget=80)) == [SetPlan("a", 1), Start("a")]
    assert decide(view(job("a", TIDE, low), budget=80)) == [Start("a")]


def test_after_a_budget_cut_jobs_are_suspended() -> None:
    filling = tide(60, step_ns=MS, persistent=20)
    assert decide(view(job("a", filling, state=RUNNING), job("b", filling, arrived_ns=1), budget=99)) == [Suspend("b")]


def test_among_jobs_of_unknown_length_that_hurt_each_other_the_one_with_the_smaller_share_is_next() -> None:
    slow = {"beside": {"a": 3.0, "b": 3.0}, "iterations_done": 1}
    returned = job("a", TIDE, share_ns=100, service_ns=0, **slow)
    other = job("b", OTHER, share_ns=99, service_ns=10**9, **slow)
    assert decide(view(returned, other, budget=200)) == [Start("b")]


def test_a_job_with_a_deadline_is_put_into_the_deadline_class() -> None:
    assert decide(view(serving(in_deadline_class=False), budget=200)) == [SetClass("serve", True)]
