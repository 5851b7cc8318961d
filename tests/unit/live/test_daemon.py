"""Rules of the daemon in virtual time: jobs that are refused, run ahead, or wait for memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from board_member import Member
from daemons import SECONDS, until
from neaptide.core.control.events import IterationEnded, JobEvicted, JobResumed
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Board, Region, Request, SlotState
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.reporting.logs.log_file import read_runs
from scripted_daemon import ScriptedCaller, ScriptedClock
from simple_policies import Everything
from tides import tide

MIB = 1 << 20


def trace(persistent: int, ephemeral: int) -> bytes:
    return encode(tide("job", 50, 0.004, persistent * MIB, ephemeral * MIB))


class World:
    """A daemon in virtual time; its jobs are members of the board that do what a test says."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.paths = ScriptedClock(), RuntimePaths(folder)
        self.board = Board.create(self.paths.board, 100 * MIB, Region(None, 2))
        self.daemon = Daemon(self.board, self.paths, Everything(), 100 * MIB, self.clock, print)
        self.members: dict[str, Member] = {}
        self.callers: dict[str, ScriptedCaller] = {}

    def join(self, name: str, profile: bytes) -> Member:
        member, caller = Member(self.board, name), ScriptedCaller()
        self.members[name], self.callers[name] = member, caller
        self.daemon.heard(caller, say.Hello(pid=os.getpid(), slot=member.slot, job=name))
        self.daemon.heard(caller, say.Profiled(profile))
        return member

    def end_iteration(self, name: str, index: int) -> None:
        self.members[name].end_iteration()
        self.daemon.heard(self.callers[name], say.IterationEnded(index, 1.0, 4_000_000))

    def entries(self) -> tuple[object, ...]:
        self.daemon.heard(ScriptedCaller(), say.StatusRequest())  # which has the log written
        return read_runs(self.paths.events)[-1].entries

    def close(self) -> None:
        self.daemon.close()
        for member in self.members.values():
            member.leave()
        self.board.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_a_resumed_job_that_is_refused_is_not_attached_any_more(world: World) -> None:
    member = world.members["a"] = Member(world.board, "a")
    hello = say.Hello(pid=os.getpid(), slot=member.slot, job="a", resumed=True, trace=trace(10, 200))
    refused = ScriptedCaller()
    world.daemon.heard(refused, hello)
    assert isinstance(refused.heard[-1], say.JobRefused)
    assert [job.state for job in world.daemon.status().jobs] == ["failed"]
    again = ScriptedCaller()
    world.daemon.heard(again, say.Hello(pid=os.getpid(), slot=member.slot, job="a"))
    assert again.heard[0] == say.Welcome(measure=True)


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


def evict_younger(world: World) -> Member:
    """Two jobs, `a` and `b`, where the iteration of `a` waits for memory that `b` holds, until `b` is evicted."""
    older, younger = world.join("a", trace(10, 40)), world.join("b", trace(10, 40))
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    waiting = Thread(target=older.take, args=(20 * MIB, SECONDS))
    waiting.start()
    until(lambda: bool(world.board.progress(older.slot).wanted_bytes), "the older iteration to wait for memory")
    world.clock.pass_seconds(1.2)
    assert younger.request is Request.EVICT
    younger.give(45 * MIB)
    younger.set_state(SlotState.EVICTED)
    younger.finish_request(Request.EVICT)
    waiting.join()
    world.clock.pass_seconds(0.1)
    assert [job.state for job in world.daemon.status().jobs] == ["running", "evicted"]
    return younger


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
