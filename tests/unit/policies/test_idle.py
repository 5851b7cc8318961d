"""Which idle servers make way for which job, and when a policy has itself asked again."""

from __future__ import annotations

import pytest

from neaptide.core.control.actions import Admit, Start, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.idle import asked_again, long_idle, make_way
from views import job, tide, view

QUEUED, READY, SUSPENDED = JobState.QUEUED, JobState.READY, JobState.SUSPENDED
LARGE = tide(1, persistent=400)  # its move takes 40 ns, a turn 800 ns


def server(
    name: str, since_ns: int = 0, state: JobState = READY, requests: tuple[int, ...] = (), **more: int
) -> JobView:
    return job(
        name,
        LARGE,
        state=state,
        kind=JobKind.INFERENCE,
        since_ns=since_ns,
        requests=requests,
        deadline_ns=more.get("slo"),
    )


def test_a_server_is_long_idle_after_the_time_of_its_move_and_with_a_deadline_after_a_turn() -> None:
    assert [long_idle(server("a", since_ns=100), now) for now in (140, 141)] == [False, True]
    assert [long_idle(server("a", slo=5), now) for now in (799, 801)] == [False, True]
    assert not long_idle(server("a", requests=(1,)), 10_000)
    assert not long_idle(job("trains", LARGE), 10_000)


@pytest.mark.parametrize("state", [QUEUED, SUSPENDED])
def test_the_fewest_servers_leave_longest_idle_first(state: JobState) -> None:
    idle = [server("a", since_ns=30), server("b", since_ns=10), server("c", since_ns=20)]
    waits = server("waits", since_ns=50, state=state, requests=(1,))
    found = make_way(view(*idle, waits, budget=1300, now=1000))
    assert found is not None
    assert (found[0].name, [each.name for each in found[1]]) == ("waits", ["b"])


def test_nobody_leaves_for_a_job_without_work_nor_for_one_that_fits_or_would_not_fit_then() -> None:
    idle, busy = server("idle"), server("busy", requests=(1,))
    assert make_way(view(idle, server("waits", state=SUSPENDED), budget=500, now=1000)) is None
    waits = server("waits", state=SUSPENDED, requests=(1,))
    assert make_way(view(idle, waits, budget=900, now=1000)) is None
    assert make_way(view(idle, busy, waits, budget=500, now=1000)) is None


def test_servers_make_way_for_no_job_that_would_take_the_room_of_an_evicted_one() -> None:
    idle, waits = server("idle"), job("waits", tide(1, persistent=401), state=QUEUED)
    evicted = job("evicted", LARGE, state=SUSPENDED, evicted=True)
    assert make_way(view(idle, waits, evicted, budget=801, now=1000)) is None
    assert make_way(view(idle, waits, evicted, budget=802, now=1000)) == (waits, [idle])


def test_the_policy_is_asked_again_once_when_the_next_server_is_long_idle_while_work_waits() -> None:
    idle, waits = server("idle", since_ns=100), server("waits", state=QUEUED, requests=(1,))
    assert asked_again([Start("x")], view(idle, waits, budget=500, now=110)) == [Start("x"), WakeAt(141)]
    assert asked_again([WakeAt(120)], view(idle, waits, budget=500, now=110)) == [WakeAt(120)]
    assert asked_again([], view(idle, waits, budget=500, now=141)) == []
    assert asked_again([Admit("waits")], view(idle, waits, budget=900, now=110)) == [Admit("waits")]
    assert asked_again([], view(idle, server("other", state=SUSPENDED), budget=500, now=110)) == []
