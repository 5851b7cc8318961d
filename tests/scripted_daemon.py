"""A daemon in virtual time, with a clock, connections and jobs under a test's control."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from board_member import Member
from daemons import SECONDS, until
from neaptide.core.control.policy import Policy
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Board, Region
from neaptide.devices.board.figures import ProcessState
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.reporting.logs.log_file import read_runs
from simple_policies import Everything
from tides import tide

MIB = 1 << 20


class ScriptedClock:
    """A clock whose time passes only in `pass_seconds`."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._calls: list[_Call] = []

    def now_ns(self) -> int:
        return self._now_ns

    def device_ns(self, at_ns: int) -> int:
        return at_ns

    def call_later(self, seconds: float, call: Callable[[], None]) -> _Call:
        self._calls.append(_Call(self._now_ns + round(seconds * 1e9), call))
        return self._calls[-1]

    def pass_seconds(self, seconds: float) -> None:
        end_ns = self._now_ns + round(seconds * 1e9)
        while due := [call for call in self._calls if call.at_ns <= end_ns and not call.cancelled]:
            first = min(due, key=lambda call: call.at_ns)
            self._calls.remove(first)
            self._now_ns = max(self._now_ns, first.at_ns)
            first.call()
        self._now_ns = end_ns


class _Call:
    def __init__(self, at_ns: int, call: Callable[[], None]) -> None:
        self.at_ns, self.call, self.cancelled = at_ns, call, False

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedCaller:
    """A connection that keeps the daemon's messages."""

    def __init__(self) -> None:
        self.job: AttachedJob | None = None
        self.peer_pid = os.getpid()
        self.hung_up = False
        self.heard: list[say.FromDaemon] = []

    def say(self, message: say.FromDaemon) -> None:
        self.heard.append(message)

    def hang_up(self) -> None:
        self.hung_up = True


def trace(persistent: int, ephemeral: int) -> bytes:
    """The trace of a job that needs so many MiB."""
    return encode(tide("job", 50, 0.004, persistent * MIB, ephemeral * MIB))


class World:
    """A daemon in virtual time; its jobs are members of the board that do what a test says."""

    def __init__(self, folder: Path, policy: Policy | None = None, budget_bytes: int = 100 * MIB) -> None:
        self.clock, self.paths = ScriptedClock(), RuntimePaths(folder)
        self.board = Board.create(self.paths.board, budget_bytes, Region(None, 2))
        self.state = ProcessState.RUNNING
        """Of every job's process."""
        self.coreless = False
        """Whether every job's process could run and has no core."""
        self.core_waits_read = 0
        """How often that was looked at."""
        self.daemon = Daemon(
            self.board,
            self.paths,
            policy or Everything(),
            budget_bytes,
            self.clock,
            print,
            lambda *_: self.state,
            core_waits=self._core_waits,
        )
        self.members: dict[str, Member] = {}
        self.callers: dict[str, ScriptedCaller] = {}

    def _core_waits(self, pid: int) -> dict[int, int]:
        self.core_waits_read += 1
        return {pid: self.clock.now_ns()} if self.coreless else {}

    def member(self, name: str) -> Member:
        """A process that has a slot on the board."""
        self.members[name] = Member(self.board, name)
        return self.members[name]

    def hello(self, name: str, trace: bytes | None = None) -> say.Hello:
        """What the job says first; with a trace, it has run under an earlier daemon."""
        slot = self.members[name].slot
        return say.Hello(pid=os.getpid(), slot=slot, job=name, resumed=trace is not None, trace=trace)

    def greet(self, name: str, trace: bytes | None = None) -> ScriptedCaller:
        """A new connection of the job."""
        caller = self.callers[name] = ScriptedCaller()
        self.daemon.heard(caller, self.hello(name, trace))
        return caller

    def join(self, name: str, profile: bytes) -> Member:
        """A new job that was measured."""
        member = self.member(name)
        self.daemon.heard(self.greet(name), say.Profiled(profile))
        return member

    def end_iteration(self, name: str, index: int, took_ns: int = 4_000_000) -> None:
        self.members[name].end_iteration()
        self.daemon.heard(self.callers[name], say.IterationEnded(index, 1.0, 0, took_ns))

    def jobs(self) -> dict[str, str]:
        """The state of each job, by name."""
        return {job.name: job.state.value for job in self.daemon.status().jobs}

    def entries(self) -> tuple[object, ...]:
        self.daemon.heard(ScriptedCaller(), say.StatusRequest())  # which has the log written
        return read_runs(self.paths.events)[-1].entries

    def close(self) -> None:
        self.daemon.close()
        for member in self.members.values():
            member.leave()
        self.board.close()


def older_waits(world: World) -> tuple[Member, Thread]:
    """Jobs `a` and `b` in an iteration each; that of `a`, the older one, waits for more than `b` leaves.

    The daemon has looked at that for long enough to evict `b`. Returns `b`, and the thread of `a` that waits.
    """
    older, younger = world.join("a", trace(10, 40)), world.join("b", trace(10, 40))
    for member in (older, younger):
        member.begin_iteration()
        assert member.take(45 * MIB)
    waiting = Thread(target=older.take, args=(20 * MIB, SECONDS))
    waiting.start()
    until(lambda: bool(world.board.progress(older.slot).wanted_bytes), "the older iteration to wait for memory")
    world.clock.pass_seconds(1.2)
    return younger, waiting
