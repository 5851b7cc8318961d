"""The bytes that jobs hold, as the daemon logs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from board_member import Member
from neaptide.core.control.log_format import HeldMemory
from neaptide.devices.board import Board, Region
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.daemon.watch import memory_history
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.log_file import read_runs
from scripted_daemon import ScriptedCaller, ScriptedClock, World, trace

MIB = 1 << 20


class Device:
    """A daemon in virtual time with one job."""

    def __init__(self, folder: Path) -> None:
        self.clock = ScriptedClock()
        self.paths = RuntimePaths(folder)
        self.board = Board.create(self.paths.board, 100 * MIB, Region("soft", 2))
        self.daemon = Daemon(self.board, self.paths, find_policy("neaptide"), 100 * MIB, self.clock, print)
        self.member = Member(self.board, "a")
        self.caller = ScriptedCaller()
        self.daemon.heard(self.caller, say.Hello(pid=os.getpid(), slot=self.member.slot, job="a"))

    def logged(self) -> tuple[HeldMemory, ...]:
        return logged(self.daemon, self.paths)


def logged(daemon: Daemon, paths: RuntimePaths) -> tuple[HeldMemory, ...]:
    daemon.heard(ScriptedCaller(), say.StatusRequest())  # which has the log written
    return read_runs(paths.events)[-1].memory


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    device = Device(tmp_path)
    yield device
    device.daemon.close()
    device.member.leave()
    device.board.close()


def test_a_change_is_logged_once_with_its_time(device: Device) -> None:
    device.clock.pass_seconds(0.03)
    device.member.take(4 * MIB, 0)
    device.clock.pass_seconds(1.0)
    device.member.give(2 * MIB)
    device.clock.pass_seconds(1.0)
    assert [held.held_bytes for held in device.logged()] == [{"a": 0}, {"a": 4 * MIB}, {"a": 2 * MIB}]
    first, second, third = (held.at_ns / 1e9 for held in device.logged())
    assert first <= 0.03 < second < 0.1
    assert 1.03 < third < 1.2


def test_the_rate_is_halved_again_and_again_in_a_long_run(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_history, "_LINES_AT_ONE_RATE", 10)
    for _ in range(100):
        device.clock.pass_seconds(0.01)
        device.member.take(MIB // 2, 0)
    at_ms = [held.at_ns // 1_000_000 for held in device.logged()]
    gaps_ms = [later - earlier for earlier, later in pairwise(at_ms)]
    assert gaps_ms[:9] == [20] * 9
    assert gaps_ms[10:19] == [40] * 9
    assert gaps_ms[20:] == [80] * len(gaps_ms[20:]) != []


def test_the_last_job_leaves_an_empty_device(device: Device) -> None:
    device.member.take(4 * MIB, 0)
    device.clock.pass_seconds(0.1)
    device.daemon.heard(device.caller, say.Goodbye())
    device.member.leave()
    device.clock.pass_seconds(1.0)
    assert device.logged()[-1].held_bytes == {}
    lines = device.logged()
    device.clock.pass_seconds(100.0)
    assert device.logged() == lines


def test_bytes_of_a_process_without_a_connection_are_logged_without_a_name(device: Device) -> None:
    other = Member(device.board, "other")
    other.take(6 * MIB, 0)
    device.clock.pass_seconds(0.1)
    assert device.logged()[-1].held_bytes == {"a": 0, "": 6 * MIB}
    other.leave()


def test_a_job_that_runs_ahead_is_looked_at_ten_times_a_second(tmp_path: Path) -> None:
    world = World(tmp_path, find_policy("neaptide"))
    member = world.join("a", trace(10, 20))
    before = len(logged(world.daemon, world.paths))
    for _ in range(100):
        world.clock.pass_seconds(0.01)
        assert member.take(MIB // 8, 0)
    alone = len(logged(world.daemon, world.paths)) - before
    world.join("b", trace(10, 20))
    before = len(logged(world.daemon, world.paths))
    for _ in range(100):
        world.clock.pass_seconds(0.01)
        assert member.take(MIB // 8, 0)
    beside = len(logged(world.daemon, world.paths)) - before
    world.close()
    assert 9 <= alone <= 11
    assert 45 <= beside <= 51
