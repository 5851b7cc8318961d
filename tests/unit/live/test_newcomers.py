"""New jobs run beside the others until they are measured: a daemon in virtual time, jobs that do what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from board_member import Member
from daemons import SECONDS, until
from neaptide.core.control.events import BudgetChanged, JobEvicted, JobMeasured
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Request, SlotState
from neaptide.live.protocol import messages as say
from neaptide.reporting.logs.replay import replay
from scripted_daemon import MIB, ScriptedCaller, World
from simple_policies import Everything
from tides import tide


class Newcomers(World):
    """A daemon with a budget of 100 MiB; jobs come and are measured later."""

    def comes(self, name: str) -> Member:
        member = self.member(name)
        self.greet(name)
        return member

    def declares(self, name: str, amount: int) -> None:
        """A job comes whose user has said what it will hold."""
        self.member(name)
        caller = self.callers[name] = ScriptedCaller()
        self.daemon.heard(caller, replace(self.hello(name), memory_bytes=amount * MIB))

    def measured(self, name: str, persistent: int, ephemeral: int, seconds: float = 0.004) -> None:
        trace = tide(name, 50, seconds, persistent * MIB, ephemeral * MIB)
        self.daemon.heard(self.callers[name], say.Profiled(encode(trace)))

    def has(self, name: str, persistent: int, ephemeral: int) -> Member:
        member = self.comes(name)
        self.measured(name, persistent, ephemeral)
        return member

    def wants(self, name: str, amount: int) -> Thread:
        """Have a job wait for memory, on a thread of its own."""
        waiting = Thread(target=self.members[name].take, args=(amount * MIB, SECONDS))
        waiting.start()
        slot = self.members[name].slot
        until(lambda: bool(self.board.progress(slot).wanted_bytes), "it to wait for memory")
        return waiting

    def leaves(self, name: str, amount: int) -> None:
        """A job does what it is asked: it moves its bytes to host memory."""
        member = self.members[name]
        assert member.request is Request.EVICT
        member.give(amount * MIB)
        member.set_state(SlotState.EVICTED)
        member.finish_request(Request.EVICT)

    def returns(self, name: str, amount: int) -> None:
        member = self.members[name]
        assert member.request is Request.RESTORE
        assert member.take(amount * MIB)
        member.set_state(SlotState.RUNNING)
        member.finish_request(Request.RESTORE)

    def budgets(self) -> list[int]:
        """As the policy was told of them, in MiB."""
        return [entry.budget_bytes // MIB for entry in self.entries() if isinstance(entry, BudgetChanged)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Newcomers]:
    world = Newcomers(tmp_path)
    yield world
    world.close()


def test_a_new_job_is_welcomed_at_once_and_the_others_go_on(world: Newcomers) -> None:
    first = world.has("a", 10, 20)
    first.begin_iteration()
    world.comes("b")
    assert world.callers["b"].heard == [say.Welcome(True, "b", 100 * MIB, "everything")]
    for index in range(5):
        world.end_iteration("a", index)
        assert world.board.progress(first.slot).permit == index + 2  # the next iteration may begin
        first.begin_iteration()
        world.clock.pass_seconds(0.5)
    assert world.jobs()["a"] == "running"
    assert world.jobs()["b"] == "measuring"


def test_ten_new_jobs_within_what_is_free_stop_nobody(world: Newcomers) -> None:
    first = world.has("a", 10, 20)
    assert first.take(30 * MIB)
    ended = 0

    def neighbour_goes_on() -> None:
        nonlocal ended
        first.begin_iteration()
        world.clock.pass_seconds(0.05)
        world.end_iteration("a", ended)
        ended += 1
        assert world.board.progress(first.slot).permit > ended  # the next iteration may begin at once

    neighbour_goes_on()
    names = [f"new{index}" for index in range(10)]
    for name in names:
        assert world.comes(name).take(6 * MIB)  # at once: it waits for nobody
        neighbour_goes_on()
    assert world.jobs() == {"a": "running"} | dict.fromkeys(names, "measuring")
    for name in names:
        world.measured(name, 2, 4)
        neighbour_goes_on()
    assert world.jobs()["a"] == "running"
    assert "measuring" not in world.jobs().values()
    assert not [entry for entry in world.entries() if isinstance(entry, JobEvicted)]


def test_a_job_without_iterations_is_shown_as_unmeasured_and_holds_nobody_up(world: Newcomers) -> None:
    first = world.has("a", 10, 20)
    world.comes("b")
    for index in range(100):
        first.begin_iteration()
        world.clock.pass_seconds(0.3)
        world.end_iteration("a", index)
        assert world.board.progress(first.slot).permit == index + 2
    assert world.jobs()["b"] == "running unmeasured"
    assert not [entry for entry in world.entries() if isinstance(entry, JobEvicted)]


def test_what_a_new_job_holds_is_taken_off_the_budget_and_returns_when_it_is_measured(world: Newcomers) -> None:
    world.has("a", 10, 20)
    new = world.comes("b")
    assert new.take(30 * MIB)
    world.clock.pass_seconds(0.2)
    assert world.budgets() == [70]
    world.measured("b", 10, 20)
    assert world.budgets() == [70, 100]


def test_a_new_job_counts_with_the_most_that_it_held_of_late(world: Newcomers) -> None:
    world.has("a", 10, 20)
    new = world.comes("b")
    for _ in range(20):
        assert new.take(40 * MIB)
        world.clock.pass_seconds(0.1)
        new.give(40 * MIB)
        world.clock.pass_seconds(0.1)
    assert world.budgets() == [60]
    world.clock.pass_seconds(3.0)
    assert world.budgets() == [60, 100]


def test_the_budget_stays_while_what_a_new_job_holds_changes_little(world: Newcomers) -> None:
    world.has("a", 10, 20)
    new = world.comes("b")
    for amount in (40, 3, 2, 1):  # 40, 43, 45 and 46 MiB; an eighth of 40 is 5
        assert new.take(amount * MIB)
        world.clock.pass_seconds(0.2)
    assert world.budgets() == [60, 54]


def test_the_policy_is_never_left_less_than_its_largest_job_needs_alone(world: Newcomers) -> None:
    world.has("a", 10, 80)
    new = world.comes("b")
    assert new.take(60 * MIB)
    world.clock.pass_seconds(0.2)
    assert world.budgets() == [90]


def test_a_new_job_that_waits_for_memory_gets_room_until_it_was_measured(world: Newcomers) -> None:
    assert world.has("a", 80, 10).take(80 * MIB)
    assert world.comes("b").take(10 * MIB)
    waiting = world.wants("b", 30)
    world.clock.pass_seconds(0.3)
    world.leaves("a", 80)
    waiting.join()
    world.clock.pass_seconds(0.1)
    assert world.jobs()["a"] == "evicted"
    world.measured("b", 10, 30)
    assert world.members["a"].request is Request.RESTORE


def test_a_new_job_whose_bytes_come_and_go_without_an_advance_gets_room_like_one_that_stands_still(
    world: Newcomers,
) -> None:
    first = world.has("a", 10, 60)
    assert first.take(40 * MIB)
    first.begin_iteration()
    new = world.comes("b")
    assert new.take(50 * MIB)
    waiting = world.wants("b", 60)
    for _ in range(30):
        new.give(1 * MIB)
        world.clock.pass_seconds(0.05)
    world.leaves("a", 40)
    waiting.join()


def test_a_new_job_that_does_nothing_with_its_room_gives_it_back_and_gets_it_again_later(world: Newcomers) -> None:
    assert world.has("a", 80, 10).take(80 * MIB)
    world.comes("b")
    waiting = world.wants("b", 40)
    world.clock.pass_seconds(0.3)
    world.leaves("a", 80)
    waiting.join()
    world.clock.pass_seconds(1.5)  # it computes on the CPU, or sleeps
    world.leaves("b", 40)
    world.returns("a", 80)
    world.clock.pass_seconds(0.2)
    assert world.jobs()["a"] != "evicted"
    world.members["a"].begin_iteration()
    for _ in range(60):  # twenty times what it took to make the room
        world.members["a"].count(1, 1)
        world.clock.pass_seconds(0.1)
    assert world.members["b"].request is Request.RESTORE


def test_a_new_job_that_uses_its_room_takes_turns_with_the_others(world: Newcomers) -> None:
    assert world.has("a", 80, 10).take(80 * MIB)
    world.comes("b")
    waiting = world.wants("b", 40)
    world.clock.pass_seconds(0.3)
    world.leaves("a", 80)
    waiting.join()
    for _ in range(60):  # it launches all the time and shows no iterations
        world.members["b"].count(1, 1)
        world.clock.pass_seconds(0.1)
        if world.members["b"].request is Request.EVICT:
            break
    world.leaves("b", 40)
    world.returns("a", 80)
    world.clock.pass_seconds(0.1)
    assert world.jobs()["a"] != "evicted"
    assert world.jobs()["b"] == "evicted"


def test_room_whose_making_took_long_lasts_long_and_so_does_the_turn_of_the_others(world: World) -> None:
    assert world.has("a", 80, 10).take(80 * MIB)
    world.comes("b")
    waiting = world.wants("b", 40)
    world.clock.pass_seconds(2.2)  # on a busy machine a move takes long
    world.leaves("a", 80)
    waiting.join()
    for _ in range(300):  # much longer than room lasts that is made at once
        world.members["b"].count(1, 1)
        world.clock.pass_seconds(0.1)
    assert world.members["b"].request is Request.NONE
    for _ in range(200):
        world.members["b"].count(1, 1)
        world.clock.pass_seconds(0.1)
    world.clock.pass_seconds(5)  # its own move takes long, too, and is no part of the turn of the others
    world.leaves("b", 40)
    world.returns("a", 80)
    world.members["a"].begin_iteration()
    asked = []
    for _ in range(50):
        world.members["a"].count(1, 1)
        world.clock.pass_seconds(1)
        asked.append(world.members["b"].request)
    assert (asked[30], asked[-1]) == (Request.NONE, Request.RESTORE)


def test_a_new_job_waits_longer_for_memory_while_another_new_job_goes_on(world: World) -> None:
    going = world.comes("a")
    assert going.take(80 * MIB)
    world.comes("b")
    waiting = world.wants("b", 40)
    for _ in range(9):
        going.count(1, 1)
        world.clock.pass_seconds(0.1)
    early = going.request
    going.give(80 * MIB)
    waiting.join()
    assert early is Request.NONE


def test_of_two_new_jobs_that_wait_for_each_other_one_gets_room_at_once(world: World) -> None:
    for name in ("a", "b"):
        assert world.comes(name).take(45 * MIB)
    threads = [world.wants("a", 20), world.wants("b", 20)]
    world.clock.pass_seconds(0.3)
    asked = [world.members[name].request for name in ("a", "b")]
    world.members["a"].give(45 * MIB)
    for thread in threads:
        thread.join()
    assert sorted(asked) == [Request.NONE, Request.EVICT]


def test_iterations_alone_correct_the_time_of_a_job_that_was_measured_beside_others(world: Newcomers) -> None:
    first = world.has("a", 10, 20)
    for index in range(30):
        first.begin_iteration()
        world.clock.pass_seconds(0.01)
        world.end_iteration("a", index, took_ns=8_000_000)
    world.clock.pass_seconds(0.2)
    corrected = [entry.solo_ns for entry in world.entries() if isinstance(entry, JobMeasured)]
    assert corrected == [8_000_000]
    assert world.daemon.status().jobs[0].solo_seconds == 0.008
    assert replay(world.paths.events, world.paths.traces, Everything()) == []


@pytest.mark.parametrize(("took_ns", "corrected"), [(1_000_000, [("a", 1_000_000)]), (90_000_000, [])])
def test_iterations_beside_another_job_correct_the_time_alone_only_if_they_are_shorter(
    world: Newcomers, took_ns: int, corrected: list[tuple[str, int]]
) -> None:
    first = world.has("a", 10, 20)
    world.has("b", 10, 20)
    for index in range(10):
        first.begin_iteration()
        world.clock.pass_seconds(0.1)
        world.end_iteration("a", index, took_ns=took_ns)
    assert [(entry.job, entry.solo_ns) for entry in world.entries() if isinstance(entry, JobMeasured)] == corrected


def test_a_job_that_has_changed_is_known_by_its_new_measurement_and_the_log_can_be_replayed(world: Newcomers) -> None:
    first = world.has("a", 10, 20)
    first.begin_iteration()
    world.measured("a", 30, 40, seconds=0.012)
    world.end_iteration("a", 0)
    (shown,) = world.daemon.status().jobs
    assert (shown.persistent_bytes, shown.needs_bytes) == (30 * MIB, 70 * MIB)
    assert shown.solo_seconds == pytest.approx(0.012, rel=0.1)
    assert [entry.job for entry in world.entries() if isinstance(entry, JobMeasured)] == ["a"]
    assert replay(world.paths.events, world.paths.traces, Everything()) == []


def test_policies_leave_a_new_job_what_its_user_says_it_will_hold_from_the_beginning(world: Newcomers) -> None:
    world.has("here", 10, 20)
    world.declares("declared", 60)
    assert world.budgets()[-1] == 40
    world.measured("declared", 5, 10)
    assert world.budgets()[-1] == 100


def test_a_new_job_that_is_said_to_hold_more_than_the_budget_leaves_the_others_what_they_need(world: Newcomers) -> None:
    world.has("here", 10, 20)
    world.declares("declared", 900)
    assert world.budgets()[-1] == 30
