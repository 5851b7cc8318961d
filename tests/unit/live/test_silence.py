"""What the daemon does on its board ten times a second, and when it was silent for a while, in virtual time."""

from __future__ import annotations

import msgspec

from board_member import Member
from neaptide.devices.board import Request, SlotState
from scripted_daemon import MIB, ScriptedCaller, World, older_waits, trace


def leave(member: Member) -> None:
    """Follow the request to leave, as a process that has given its memory back."""
    assert member.request is Request.EVICT
    member.set_state(SlotState.EVICTED)
    member.finish_request(Request.EVICT)


def test_the_daemon_writes_again_what_was_changed_on_its_board(world: World) -> None:
    first, second = world.join("a", trace(10, 20)), world.join("b", trace(10, 20))
    permits = {member.slot: world.board.progress(member.slot).permit for member in (first, second)}
    for slot in permits:
        world.board.set_permit(slot, 77)
        world.board.set_gate(slot, 0)
        world.board.set_inflight_cap(slot, 1)
        world.board.set_ceiling(slot, 1)
        world.board.set_request(slot, Request.RESTORE)
    world.board.set_capacity(500 * MIB)
    first.set_state(SlotState.EVICTED)
    first.finish_request(Request.RESTORE)
    world.daemon.beat(world.clock.now_ns())
    seen = world.board.snapshot()
    assert seen.capacity_bytes == 100 * MIB
    assert {slot.slot: slot.permit for slot in seen.slots} == permits
    assert all(slot.heavy_open and slot.inflight_cap > 1 and slot.ceiling_bytes > 100 * MIB for slot in seen.slots)
    assert first.request is Request.RESTORE  # nobody had asked it to leave


def test_a_job_that_came_back_while_the_daemon_was_silent_is_evicted_again(world: World) -> None:
    younger, waiting = older_waits(world)
    younger.give(45 * MIB)
    leave(younger)
    waiting.join()
    world.clock.pass_seconds(0.1)
    assert world.jobs() == {"a": "running", "b": "evicted"}
    assert younger.take(10 * MIB)
    younger.set_state(SlotState.RUNNING)
    world.daemon.beat(world.clock.now_ns())
    assert younger.request is Request.EVICT
    younger.give(10 * MIB)
    leave(younger)
    world.daemon.beat(world.clock.now_ns())
    assert younger.request is Request.NONE
    world.end_iteration("a", 0)
    world.clock.pass_seconds(0.1)
    assert younger.request is Request.RESTORE


def test_iterations_that_ran_while_the_daemon_was_silent_are_counted_and_the_next_gets_its_permit(world: World) -> None:
    jobs = {name: world.join(name, trace(10, 20)) for name in "ab"}
    for name, member in jobs.items():  # the daemon hears of all of them only now
        for index in range(5):
            member.begin_iteration()
            world.end_iteration(name, index)
        member.begin_iteration()
    world.daemon.beat(world.clock.now_ns())
    for name, member in jobs.items():
        seen = world.board.progress(member.slot)
        assert seen.permit > 5, (name, seen)
    assert [job.iterations_done for job in world.daemon.status().jobs] == [5, 5]


def test_a_job_that_ran_without_permits_and_joins_again_gets_the_next_one(world: World) -> None:
    world.join("b", trace(10, 20))
    member = world.join("a", trace(10, 20))
    given = world.board.progress(member.slot).permit
    world.board.beat(1, 100 * MIB)  # long ago
    for _ in range(given + 5):
        assert member.wait_permit(member.begin_iteration(), 10)
        member.end_iteration()
    world.board.stop_beating()
    waiting = member.begin_iteration()
    assert not member.wait_permit(waiting, 0)
    world.daemon.lost(world.callers["a"])
    hello = msgspec.structs.replace(world.hello("a", trace(10, 20)), ended=waiting)
    world.daemon.heard(ScriptedCaller(), hello)
    assert member.wait_permit(waiting, 0)


def test_an_end_that_stands_for_several_iterations_ends_the_one_that_was_started(world: World) -> None:
    jobs = {name: world.join(name, trace(10, 20)) for name in "ab"}
    for name, member in jobs.items():
        for _ in range(6):
            member.begin_iteration()
        world.end_iteration(name, 5)  # the ends before it were not sent: nobody read them
    for member in jobs.values():
        assert world.board.progress(member.slot).permit > 6
