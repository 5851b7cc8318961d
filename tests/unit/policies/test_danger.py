from typing import Any

from neaptide.core.control.actions import Action, SetGate
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.danger import Danger
from neaptide.policies.parts.slack import NEVER
from views import job, tide

MS = 1_000_000
SERVES = tide(1, step_ns=10 * MS)  # 10 ms alone
TRAINS = job("train", tide(1, longest_ns=2 * MS), state=JobState.RUNNING)


def serving(**facts: Any) -> JobView:
    given = {"kind": JobKind.INFERENCE, "deadline_ns": 100 * MS, "reserve": 0.2, **facts}
    return job("serve", SERVES, **given)


def danger(*bound: JobView, now: int = 0, lead: float = 1.0) -> Danger:
    return Danger.of(bound, [TRAINS], lead, now)


def gate(seen: Danger, other: JobView, now_ns: int) -> Action | None:
    """How the gate of a job is changed, if it is."""
    changes = seen.gates([other], now_ns)
    return changes[0] if changes else None


def test_without_requests_nobody_is_in_danger() -> None:
    assert danger(serving()).at_ns == NEVER
    assert danger(serving()).wake_ns(0) == NEVER


def test_a_request_is_in_danger_when_reserve_service_and_the_ops_of_others_are_all_that_is_left() -> None:
    assert danger(serving(requests=(5 * MS,))).at_ns == (5 + 80 - 10 - 2) * MS
    assert danger(serving(requests=(5 * MS,)), lead=1.5).at_ns == (5 + 80 - 15 - 2) * MS


def test_what_the_device_has_done_of_a_request_is_needed_no_more() -> None:
    half = serving(state=JobState.RUNNING, serving=(0,), position_ns=5 * MS)
    assert danger(half).at_ns == (80 - 5 - 2) * MS


def test_requests_count_by_earliest_deadline_whichever_job_they_are_for() -> None:
    first, second = serving(requests=(0, 1 * MS)), job("other", SERVES, deadline_ns=30 * MS, reserve=0.0)
    other = serving(requests=(0,), deadline_ns=30 * MS, reserve=0.0)
    assert danger(first, second).at_ns == (1 + 80 - 20 - 2) * MS
    assert danger(first, other).at_ns == (30 - 10 - 2) * MS
    crowded = serving(requests=(0,) * 8)
    assert danger(crowded).at_ns == (80 - 80 - 2) * MS


def test_a_batch_serves_several_requests_in_the_time_of_one() -> None:
    pairs = job("serve", tide(1, step_ns=10 * MS, batch=2), deadline_ns=100 * MS, reserve=0.2, requests=(0, 0, 0, 0))
    assert danger(pairs).at_ns == (80 - 20 - 2) * MS


def test_a_request_is_expected_to_take_what_requests_of_its_job_took_lately() -> None:
    assert danger(serving(requests=(0,), demand_ns=30 * MS)).at_ns == (80 - 30 - 2) * MS


def test_a_gate_is_open_until_the_danger_and_closed_in_it() -> None:
    seen = danger(serving(requests=(0,)))
    assert gate(seen, TRAINS, 0) == SetGate("train", open=True, until_ns=68 * MS)
    assert gate(seen, TRAINS, 68 * MS) == SetGate("train", open=False)
    assert seen.wake_ns(0) == 68 * MS


def test_a_closed_gate_opens_when_there_is_time_for_a_part_of_a_request() -> None:
    held = job("train", tide(1, longest_ns=2 * MS), gate_open=False)
    seen = danger(serving(requests=(0,)))
    assert gate(seen, held, 67 * MS) is None
    assert gate(seen, held, 66 * MS) == SetGate("train", open=True, until_ns=68 * MS)
    assert gate(danger(serving()), held, 68 * MS) == SetGate("train", open=True)


def test_a_gate_is_not_set_anew_for_a_little_more_time() -> None:
    def opened(until_ns: int) -> JobView:
        return job("train", tide(1, longest_ns=2 * MS), gate_until_ns=until_ns)

    seen = danger(serving(requests=(0,)))
    assert gate(seen, opened(68 * MS - 1000), 0) is None
    assert gate(seen, opened(60 * MS), 0) == SetGate("train", open=True, until_ns=68 * MS)
    assert gate(seen, opened(68 * MS + 1000), 0) == SetGate("train", open=True, until_ns=68 * MS)


def test_other_jobs_leave_the_device_to_a_latency_critical_job_from_the_arrival_of_a_request_on() -> None:
    seen = danger(serving(latency_critical=True, expected=(5 * MS,)), now=5 * MS)
    assert gate(seen, TRAINS, 5 * MS) == SetGate("train", open=False, holds_light=True)


def test_a_closed_gate_holds_light_ops_while_a_latency_critical_request_is_there_and_no_longer() -> None:
    late, critical = serving(requests=(0,)), serving(latency_critical=True, requests=(68 * MS,))
    held = job("train", tide(1, longest_ns=2 * MS), gate_open=False)
    assert gate(danger(late, now=68 * MS), held, 68 * MS) is None
    closed = gate(danger(late, critical, now=68 * MS), held, 68 * MS)
    assert closed == SetGate("train", open=False, holds_light=True)
    held = job("train", tide(1, longest_ns=2 * MS), gate_open=False, gate_holds_light=True)
    assert gate(danger(late, critical, now=68 * MS), held, 68 * MS) is None
    assert gate(danger(late, now=68 * MS), held, 68 * MS) == SetGate("train", open=False)
    assert gate(danger(serving(latency_critical=True)), held, 68 * MS) == SetGate("train", open=True)


def test_nobody_is_held_for_a_request_for_which_the_program_does_not_call_its_model() -> None:
    waits = serving(expected=(0,))
    assert danger(waits, now=99 * MS).wake_ns(99 * MS) == 100 * MS
    assert danger(waits, now=100 * MS).at_ns == NEVER
    assert danger(serving(expected=(0, 90 * MS)), now=100 * MS).at_ns == (90 + 80 - 10 - 2) * MS


def test_a_program_has_its_time_to_call_its_model_from_when_it_has_read_the_request() -> None:
    late = serving(latency_critical=True, expected=(0,), expected_since=(300 * MS,))
    assert gate(danger(late, now=301 * MS), TRAINS, 301 * MS) == SetGate("train", open=False, holds_light=True)
    assert danger(late, now=301 * MS).wake_ns(301 * MS) == 400 * MS
    assert danger(late, now=400 * MS).at_ns == NEVER


def test_nobody_is_held_for_an_iteration_that_stands_still() -> None:
    stuck = serving(state=JobState.RUNNING, serving=(0,), started_ns=0)
    last = 4 * 10 * MS + 500 * MS
    assert gate(danger(stuck, now=last - 1), TRAINS, last - 1) == SetGate("train", open=False)
    assert danger(stuck, now=last - 1).wake_ns(last - 1) == last
    assert danger(stuck, now=last).at_ns == NEVER


def test_nobody_is_held_for_an_iteration_that_waits_for_memory() -> None:
    assert danger(serving(state=JobState.RUNNING, serving=(0,), stalled=True)).at_ns == NEVER


def test_a_latency_critical_job_has_a_moment_to_answer_what_the_device_has_done() -> None:
    facts: dict[str, Any] = {"latency_critical": True, "answering": (0,), "since_ns": 20 * MS}
    closed = SetGate("train", open=False, holds_light=True)
    assert gate(danger(serving(**facts), now=21 * MS), TRAINS, 21 * MS) == closed
    assert danger(serving(**facts), now=21 * MS).wake_ns(21 * MS) == 25 * MS
    assert danger(serving(**facts), now=25 * MS).at_ns == NEVER
    assert danger(serving(answering=(0,), since_ns=20 * MS), now=21 * MS).at_ns == NEVER
