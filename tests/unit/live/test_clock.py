"""A daemon in virtual time: without a socket, an event loop, or a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from board_member import Member
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Board, Region
from neaptide.devices.board.figures import ProcessState
from neaptide.live.daemon.clock import Timers
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.policies.files import find_policy
from scripted_daemon import ScriptedCaller, ScriptedClock
from tides import tide

MIB = 1 << 20


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board.create(tmp_path / "board", 100 * MIB, Region("soft", 2))
    yield board
    board.close()


def test_a_pending_call_keeps_its_time_unless_it_is_restarted() -> None:
    clock, rang = ScriptedClock(), []
    timers = Timers(clock)
    timers.start("a", 1.0, lambda: rang.append("first"))
    timers.start("a", 0.1, lambda: rang.append("second"))
    timers.restart("b", 1.0, lambda: rang.append("replaced"))
    timers.restart("b", 2.0, lambda: rang.append("last"))
    clock.pass_seconds(0.5)
    assert rang == []
    clock.pass_seconds(3.0)
    assert rang == ["first", "last"]


def test_a_daemon_in_virtual_time_sees_processes_stop_and_go_on(board: Board, tmp_path: Path) -> None:
    clock, process_states = ScriptedClock(), [ProcessState.RUNNING]
    members = {name: Member(board, name) for name in "ab"}
    daemon = Daemon(
        board,
        RuntimePaths(tmp_path),
        find_policy("neaptide"),
        100 * MIB,
        clock,
        print,
        lambda _pid, _start_time: process_states[-1],
    )
    callers = {name: ScriptedCaller() for name in members}
    for name, caller in callers.items():
        daemon.heard(caller, say.Hello(pid=os.getpid(), slot=members[name].slot, job=name))
        assert caller.heard[-1] == say.Welcome(True, name, 100 * MIB, "neaptide")
        daemon.heard(caller, say.Profiled(encode(tide(name, 50, 0.004, 10 * MIB, 20 * MIB))))
    for member in members.values():
        member.begin_iteration()
    assert {job.state for job in daemon.status().jobs} == {"running"}
    process_states.append(ProcessState.STOPPED)
    clock.pass_seconds(0.2)
    assert not any(caller.job is None or caller.job.unresponsive for caller in callers.values())
    clock.pass_seconds(0.2)
    assert all(caller.job is not None and caller.job.unresponsive for caller in callers.values())
    assert {job.state for job in daemon.status().jobs} == {"stopped"}
    process_states.append(ProcessState.RUNNING)
    for member in members.values():
        member.count(1, 1)
    clock.pass_seconds(0.1)
    assert {job.state for job in daemon.status().jobs} == {"running"}
    daemon.close()
    for member in members.values():
        member.leave()
