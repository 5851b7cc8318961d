from neaptide.core.control.actions import Action, Admit, CapInFlight, Resume, Start, Suspend, WakeAt
from neaptide.core.control.job import JobState
from neaptide.core.control.view import View
from neaptide.policies.zico import Zico
from views import job, tide, view

QUEUED, READY, RUNNING, SUSPENDED = JobState.QUEUED, JobState.READY, JobState.RUNNING, JobState.SUSPENDED
TIDE = tide(20, 40, 60, 40, 20, step_ns=1_000_000)
MS = 1_000_000


def decide(seen: View) -> list[Action]:
    """Without the caps on kernels in flight, which a test of its own looks at."""
    return [action for action in Zico().decide(seen) if not isinstance(action, CapInFlight)]


def test_iterations_that_fit_together_start_together() -> None:
    assert decide(view(job("a", TIDE), job("b", TIDE), budget=120)) == [Start("a"), Start("b")]


def test_the_second_starts_after_the_smallest_delay_that_fits() -> None:
    # 20 40 60 40 20 and, two steps later, 20 40 60: 80 at most. One step later it would be 100.
    assert decide(view(job("a", TIDE), job("b", TIDE), budget=80)) == [Start("a"), WakeAt(2 * MS)]


def test_the_delay_counts_from_the_devices_position_and_not_from_the_clock() -> None:
    running = job("a", TIDE, state=RUNNING, position_ns=MS, started_ns=0)
    assert decide(view(running, job("b", TIDE), budget=80, now=50 * MS)) == [WakeAt(51 * MS)]


def test_a_waiting_iteration_starts_when_the_running_one_has_come_far_enough() -> None:
    running = job("a", TIDE, state=RUNNING, position_ns=2 * MS)
    assert decide(view(running, job("b", TIDE), budget=80, now=77 * MS)) == [Start("b")]


def test_persistent_bytes_of_every_admitted_job_count() -> None:
    lasting = tide(20, 40, 60, 40, 20, step_ns=MS, persistent=10)
    assert decide(view(job("a", lasting), job("b", lasting), budget=140)) == [Start("a"), Start("b")]
    assert decide(view(job("a", lasting), job("b", lasting), budget=139)) == [Start("a"), WakeAt(MS)]


def test_jobs_that_differ_are_fitted_by_their_own_curves() -> None:
    short = tide(30, step_ns=MS)
    # The short tide fits beside the long one's last step. It would also fit before the long one rises; but what that
    # will need is kept for it, because it is older.
    assert decide(view(job("a", TIDE), job("b", short), budget=60)) == [Start("a"), WakeAt(4 * MS)]
    running = job("a", TIDE, state=RUNNING, position_ns=MS)
    assert decide(view(running, job("b", short), budget=60)) == [WakeAt(3 * MS)]


def test_the_job_that_has_waited_longest_is_fitted_first() -> None:
    assert decide(view(job("a", TIDE, since_ns=9), job("b", TIDE, since_ns=3), budget=80))[0] == Start("b")


def test_a_job_that_overtakes_a_waiting_job_does_not_delay_it() -> None:
    running = job("running", TIDE, state=RUNNING, position_ns=MS)
    first = job("first", TIDE, since_ns=1)  # fits after 1 ms
    long_and_low = job("later", tide(*[10] * 9, step_ns=MS), since_ns=2)  # fits now, but not beside both
    assert decide(view(running, first, long_and_low, budget=80)) == [WakeAt(MS)]
    brief_and_low = job("later", tide(10, step_ns=MS), since_ns=2)
    assert decide(view(running, first, brief_and_low, budget=80)) == [Start("later"), WakeAt(MS)]


def test_a_job_is_admitted_when_the_ledgers_rule_holds() -> None:
    lasting = tide(20, 40, 60, 40, 20, step_ns=MS, persistent=10)
    inside = job("a", lasting, state=RUNNING, position_ns=2 * MS)
    assert decide(view(inside, job("b", lasting, state=QUEUED), budget=79)) == []
    assert decide(view(inside, job("b", lasting, state=QUEUED), budget=80)) == [Admit("b"), WakeAt(MS)]


def test_the_persistent_bytes_of_a_newly_admitted_job_count_at_once() -> None:
    lasting = tide(20, 40, 60, 40, 20, step_ns=MS, persistent=10)
    inside, new = job("a", lasting, state=RUNNING, position_ns=2 * MS), job("b", lasting, state=QUEUED)
    assert decide(view(inside, new, budget=100)) == [Admit("b"), Start("b")]
    assert decide(view(inside, new, budget=99)) == [Admit("b"), WakeAt(MS)]


def test_after_a_budget_cut_the_youngest_ready_job_is_suspended_and_later_resumed() -> None:
    lasting = tide(60, step_ns=MS, persistent=20)
    running = job("old", lasting, state=RUNNING, arrived_ns=0)
    young = job("young", lasting, state=READY, arrived_ns=5)
    assert decide(view(running, young, budget=99)) == [Suspend("young")]
    away = job("young", lasting, state=SUSPENDED, arrived_ns=5)
    assert decide(view(running, away, budget=99)) == []
    assert decide(view(running, away, budget=100)) == [Resume("young")]


def test_a_policy_does_not_resume_an_evicted_job_but_keeps_its_place() -> None:
    lasting = tide(60, step_ns=MS, persistent=20)
    evicted = job("evicted", lasting, state=SUSPENDED, evicted=True)
    other = job("other", lasting, state=SUSPENDED, arrived_ns=5)
    assert decide(view(evicted, other, budget=99)) == []
    assert decide(view(evicted, other, budget=100)) == [Resume("other")]


def test_no_new_job_overtakes_a_suspended_one() -> None:
    lasting = tide(60, step_ns=MS, persistent=20)
    running, away = job("old", lasting, state=RUNNING), job("away", lasting, state=SUSPENDED)
    new = job("new", tide(1, step_ns=MS, persistent=1), state=QUEUED)
    assert decide(view(running, away, new, budget=99)) == []


def test_a_delay_that_is_short_compared_with_the_iteration_is_waited_for() -> None:
    running = job("a", TIDE, state=RUNNING, position_ns=2 * MS - 60_000)
    assert decide(view(running, job("b", TIDE), budget=80)) == [WakeAt(60_000)]


def test_the_policy_does_not_look_all_the_time_at_an_iteration_that_stands_still_just_before_the_room_is_free() -> None:
    running = job("a", TIDE, state=RUNNING, position_ns=2 * MS - 1)
    assert decide(view(running, job("b", TIDE), budget=80)) == [WakeAt(TIDE.solo_ns // 100)]


def test_kernels_in_flight_are_capped_while_the_peaks_do_not_fit_together() -> None:
    caps = [CapInFlight("a", 2), CapInFlight("b", 2)]
    assert Zico().decide(view(job("a", TIDE), job("b", TIDE), budget=119))[:2] == caps
    assert Zico().decide(view(job("a", TIDE), job("b", TIDE), budget=120)) == [Start("a"), Start("b")]
