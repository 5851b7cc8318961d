"""Rules of the daemon in virtual time: jobs that are refused, run ahead, or wait for memory."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from board_member import Member
from daemons import SECONDS, until
from neaptide.core.control.events import IterationEnded, JobEvicted, JobResumed
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Request, SlotState
from neaptide.devices.board.figures import ProcessState
from neaptide.live.protocol import messages as say
from neaptide.policies.files import find_policy
from neaptide.policies.temporal import Temporal
from scripted_daemon import MIB, ScriptedCaller, World, older_waits, trace
from tides import tide

SLOW = encode(tide("job", 50, 3.0, 10 * MIB, 40 * MIB))  # an iteration takes 3 s


def test_iterations_of_a_job_that_runs_ahead_are_reported_together(world: World) -> None:
    member = world.join("a", trace(10, 20))
    for index in range(10):
        member.begin_iteration()
        member.count(5, 5)
        world.end_iteration("a", index)
    world.clock.pass_seconds(0.2)
    ends = [entry for entry in world.entries() if isinstance(entry, IterationEnded)]
    assert [(end.iterations, end.took_ns, end.work) for end in ends] == [(10, 40_000_000, 10.0)]
    member.begin_iteration()
    member.count(2, 2)
    assert world.daemon.status().jobs[0].progress == pytest.approx(2 / 5, abs=0.05)


def test_iterations_that_a_job_reports_in_one_message_are_all_counted(world: World) -> None:
    member = world.join("a", trace(10, 20))
    member.begin_iteration()
    world.end_iteration("a", 0)
    world.clock.pass_seconds(0.5)
    for _ in range(40):
        member.begin_iteration()
    member.count(200, 200)
    world.daemon.heard(world.callers["a"], say.IterationEnded(40, 1.0, 0, 160_000_000))
    (job,) = world.daemon.status().jobs
    assert job.iterations_done == 41
    assert job.iterations_per_second == pytest.approx(40 / 0.5, rel=0.1)
    world.clock.pass_seconds(0.2)
    ends = [entry for entry in world.entries() if isinstance(entry, IterationEnded)]
    assert sum(end.iterations for end in ends) == 41
    assert sum(end.took_ns for end in ends) == 164_000_000


def test_the_rate_of_iterations_whose_reports_are_read_at_once_is_that_of_the_device(world: World) -> None:
    member = world.join("a", trace(10, 20))
    world.clock.pass_seconds(0.5)
    for index in range(30):  # the daemon had no core meanwhile
        member.begin_iteration()
        member.count(5, 5)
        world.end_iteration("a", index)
    assert world.daemon.status().jobs[0].iterations_per_second == pytest.approx(1 / 0.004, rel=0.01)


def test_a_job_that_is_stopped_is_shown_as_such_though_nobody_waits_for_it(world: World) -> None:
    world.join("a", trace(10, 20))
    world.clock.pass_seconds(1.0)
    assert world.jobs() == {"a": "running"}
    world.state = ProcessState.STOPPED
    assert world.jobs() == {"a": "stopped"}
    world.state = ProcessState.RUNNING
    assert world.jobs() == {"a": "running"}


def test_a_job_says_that_it_waits_for_a_budget_that_was_lowered_below_what_it_needs(tmp_path: Path) -> None:
    world = World(tmp_path, find_policy("neaptide"))
    member = world.join("a", trace(10, 40))
    member.begin_iteration()
    world.end_iteration("a", 0)
    world.daemon.heard(ScriptedCaller(), say.SetBudget(30 * MIB))
    world.clock.pass_seconds(1.0)
    (job,) = world.daemon.status().jobs
    assert (job.state, job.needs_bytes) == ("suspended", 50 * MIB)
    assert job.reason.startswith("needs 50.0 MiB and the budget is 30.0 MiB; it waits in host memory until the budget")
    world.daemon.heard(ScriptedCaller(), say.SetBudget(60 * MIB))
    world.clock.pass_seconds(1.0)
    assert world.daemon.status().jobs[0].reason == ""
    world.close()


def test_the_iterations_in_which_a_job_was_measured_are_counted_once(world: World) -> None:
    member = world.member("a")
    caller = world.greet("a")
    world.daemon.heard(caller, say.Profiled(trace(10, 20), 5))
    member.begin_iteration()
    world.end_iteration("a", 0)
    world.daemon.heard(caller, say.Profiled(trace(10, 20), 4))  # measured again, with permits
    assert world.daemon.status().jobs[0].iterations_done == 6


def test_a_job_whose_bytes_cannot_be_moved_is_not_asked_again_at_once(world: World) -> None:
    younger, waiting = older_waits(world)
    assert younger.request is Request.EVICT
    younger.finish_request(Request.EVICT)
    world.clock.pass_seconds(1)
    states = [job.state for job in world.daemon.status().jobs]
    asked_again_early = younger.request is not Request.NONE
    kept = [entry.kept for entry in world.entries() if isinstance(entry, JobResumed)]
    for _ in range(11):
        younger.count(1, 1)  # it goes on, and so does not seem to hang
        world.clock.pass_seconds(1)
    asked_again = younger.request is Request.EVICT
    younger.give(45 * MIB)
    waiting.join()
    assert (states, kept, asked_again_early, asked_again) == (["running", "running"], [True], False, True)


def evict_younger(world: World) -> Member:
    """Two jobs, `a` and `b`; the iteration of `a` waits for memory that `b` holds, until `b` is evicted."""
    younger, waiting = older_waits(world)
    assert younger.request is Request.EVICT
    younger.give(45 * MIB)
    younger.set_state(SlotState.EVICTED)
    younger.finish_request(Request.EVICT)
    waiting.join()
    world.clock.pass_seconds(0.1)
    assert [job.state for job in world.daemon.status().jobs] == ["running", "evicted"]
    return younger


def test_an_iteration_that_has_no_core_is_waited_for_and_not_evicted(world: World) -> None:
    older, younger = world.join("a", trace(10, 40)), world.join("b", trace(10, 40))
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    world.coreless = True
    waiting = Thread(target=younger.take, args=(20 * MIB, SECONDS))
    waiting.start()
    until(lambda: bool(world.board.progress(younger.slot).wanted_bytes), "the younger iteration to wait for memory")
    world.clock.pass_seconds(30)
    asked, states = [older.request, younger.request], list(world.jobs().values())
    older.give(45 * MIB)
    waiting.join()
    assert (asked, states) == ([Request.NONE, Request.NONE], ["running", "running"])


def wait_for_memory(world: World, member: Member, amount: int) -> Thread:
    """A thread of the job that waits for so many MiB."""
    waiting = Thread(target=member.take, args=(amount * MIB, SECONDS))
    waiting.start()
    until(lambda: bool(world.board.progress(member.slot).wanted_bytes), "the job to wait for memory")
    return waiting


def test_iterations_that_wait_for_memory_are_not_evicted_while_one_of_them_has_a_kernel_on_the_device(
    world: World,
) -> None:
    older, younger = world.join("a", SLOW), world.join("b", SLOW)
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    younger.count(2, 1)  # the second kernel is long
    waits = [wait_for_memory(world, member, 20) for member in (older, younger)]
    world.clock.pass_seconds(2.5)
    asked = [older.request, younger.request]
    needs = [job.needs_bytes for job in world.daemon.status().jobs]
    younger.count(0, 1)
    world.clock.pass_seconds(0.3)
    asked_then = [older.request, younger.request]
    younger.give(45 * MIB)
    for each in waits:
        each.join()
    assert asked == [Request.NONE, Request.NONE]
    assert needs == [50 * MIB, 50 * MIB]
    assert asked_then == [Request.NONE, Request.EVICT]


def test_an_iteration_with_a_long_kernel_is_not_evicted_for_a_younger_one_that_waits_for_memory(world: World) -> None:
    older, younger = world.join("a", trace(10, 40)), world.join("b", trace(10, 40))
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    older.count(1, 0)
    waiting = wait_for_memory(world, younger, 20)
    world.clock.pass_seconds(4)
    asked = [older.request, younger.request]
    older.give(45 * MIB)
    waiting.join()
    assert asked == [Request.NONE, Request.NONE]


def test_an_iteration_starves_only_if_the_younger_ones_do_not_end_in_the_time_that_they_take(world: World) -> None:
    older, younger = world.join("a", SLOW), world.join("b", SLOW)
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    waiting = wait_for_memory(world, older, 20)
    asked = []
    for _ in range(4):
        younger.count(5, 5)
        world.clock.pass_seconds(0.9)
        asked.append(younger.request)
    younger.give(45 * MIB)
    waiting.join()
    assert asked == [Request.NONE, Request.NONE, Request.NONE, Request.EVICT]


def test_only_threads_of_jobs_that_are_to_move_are_looked_at(tmp_path: Path) -> None:
    world = World(tmp_path, Temporal())
    try:
        world.join("a", trace(10, 40)).begin_iteration()
        world.join("b", trace(10, 40))  # it waits for its turn, and nobody waits for it
        world.clock.pass_seconds(2)
        assert world.core_waits_read in range(30, 41)  # once for each of 40 looks, but the first
    finally:
        world.close()


def test_an_iteration_that_has_cores_and_stands_still_is_unresponsive(world: World) -> None:
    world.join("a", trace(10, 40)).begin_iteration()
    world.join("b", trace(10, 40)).begin_iteration()
    world.coreless = True
    world.clock.pass_seconds(30)
    before = set(world.jobs().values())
    world.coreless = False
    world.clock.pass_seconds(6)
    assert (before, set(world.jobs().values())) == ({"running"}, {"stopped"})


def test_a_starving_iteration_gets_the_memory_of_a_younger_one_which_returns_at_its_end(world: World) -> None:
    younger = evict_younger(world)
    assert [entry.job for entry in world.entries() if isinstance(entry, JobEvicted)] == ["b"]
    world.end_iteration("a", 0)
    assert younger.request is Request.RESTORE
    younger.set_state(SlotState.RUNNING)
    younger.finish_request(Request.RESTORE)
    world.clock.pass_seconds(0.1)
    assert [entry.job for entry in world.entries() if isinstance(entry, JobResumed)] == ["b"]


def test_an_evicted_job_that_has_grown_too_large_for_the_others_returns_after_two_seconds(world: World) -> None:
    younger = evict_younger(world)
    world.daemon.heard(world.callers["b"], say.Grew(95 * MIB))
    world.end_iteration("a", 0)
    world.clock.pass_seconds(0.5)
    assert younger.request is Request.NONE
    world.clock.pass_seconds(2.0)
    assert younger.request is Request.RESTORE


def test_no_job_is_expected_to_need_more_than_the_budget(world: World) -> None:
    world.join("a", trace(10, 40))
    world.daemon.heard(world.callers["a"], say.Grew(1 << 40))
    (job,) = world.daemon.status().jobs
    assert job.needs_bytes == world.daemon.status().budget_bytes


def test_a_budget_that_the_board_cannot_count_is_refused_and_the_old_one_stays(world: World) -> None:
    caller = ScriptedCaller()
    world.daemon.heard(caller, say.SetBudget(1 << 60))
    assert caller.heard == [say.Problem("a budget of 1048576 TiB is too large; at most 256 TiB can be counted")]
    assert world.daemon.status().budget_bytes == world.board.snapshot().capacity_bytes == 100 * MIB
