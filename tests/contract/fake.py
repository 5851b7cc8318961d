"""The contract's scenes in virtual time: the real daemon, board, launch layer and clients, over the fake device.

Everything happens on one thread. The world lets every job go as far as it can, then moves the clock to the next moment
at which something happens by itself.
"""

from __future__ import annotations

import heapq
import os
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from contract.script import ScriptedMeasurer, known_of, settings_of, unarmed
from contract.world import LEASE, SMS, Facts, Scene, Tide, Watched, read_entries
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.devices import find_kind
from neaptide.devices.board import Board, Region
from neaptide.devices.board.figures import ProcessState
from neaptide.devices.fake.agent import FakeAgent
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.job.client import Client
from neaptide.live.protocol.framing import DaemonInbox
from neaptide.live.protocol.messages import FromDaemon, Hello, SetBudget
from neaptide.live.protocol.paths import RuntimePaths, prepare

_LONGEST_NS = 60_000_000_000


@dataclass(order=True)
class _Timer:
    at_ns: int
    number: int
    call: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """A daemon's Clock that moves when it is told to."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._timers: list[_Timer] = []
        self._made = 0

    def now_ns(self) -> int:
        return self._now_ns

    def device_ns(self, at_ns: int) -> int:
        return at_ns

    def call_later(self, seconds: float, call: Callable[[], None]) -> _Timer:
        self._made += 1
        timer = _Timer(self._now_ns + round(seconds * 1e9), self._made, call)
        heapq.heappush(self._timers, timer)
        return timer

    def next_ns(self) -> int | None:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0].at_ns if self._timers else None

    def move_to(self, at_ns: int) -> None:
        """Move on, and make the calls that are due."""
        self._now_ns = at_ns
        while (due_ns := self.next_ns()) is not None and due_ns <= at_ns:
            heapq.heappop(self._timers).call()


class _Command:
    """Sends one message to the daemon, as a command does."""

    job: AttachedJob | None = None
    peer_pid = os.getpid()

    def say(self, message: FromDaemon) -> None: ...

    def hang_up(self) -> None: ...


class _Job:
    """A job, and the daemon's connection to it (its Caller)."""

    def __init__(self, tide: Tide, board: Board, daemon: Daemon, clock: VirtualClock) -> None:
        self.tide, self._daemon, self._clock = tide, daemon, clock
        self.agent = FakeAgent(board, tide.name, clock.now_ns)
        self.client = Client(
            self.agent, settings_of(tide), lambda: ScriptedMeasurer(tide, self.agent), known=known_of(tide)
        )
        self.client.hold()
        self.agent.set_host_memory(not tide.cannot_move)
        self.job: AttachedJob | None = None
        self.peer_pid = os.getpid()
        self.over = self.stopped = False
        self.held: list[tuple[int, float]] = []
        self._steps = 0  # that the program has taken
        self._answered_ns = 0  # when its first request was answered
        self._program = self._run()
        self._messages: list[FromDaemon] = []
        self._inbox = DaemonInbox()
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._greeted = False

    # --- the daemon's side

    def say(self, message: FromDaemon) -> None:
        self._messages.append(message)

    def hang_up(self) -> None: ...

    # --- the world's side

    def advance(self) -> bool:
        """Let everything happen that can happen now; whether anything did."""
        if self.over or self.stopped:
            return False
        moved = self.agent.advance()
        before = self._steps
        try:
            next(self._program)
        except (StopIteration, MemoryError):
            self._end()
            return True
        if not self._greeted and self.agent.wait_for_held_launch(0):
            self._greet()
        return self._speak() or moved or self._steps != before

    def _greet(self) -> None:
        self._greeted = True
        ended = self.agent.iterations_ended()
        hello: Hello = self.client.hello(ended)
        self.agent.connect_reports(os.dup(self._ours.fileno()), ended)
        self._daemon.heard(self, hello)

    def _speak(self) -> bool:
        """Carry messages both ways; whether there were any."""
        spoke = False
        while self._messages:
            self.client.handle(self._messages.pop(0))
            spoke = True
        with suppress(BlockingIOError):
            while data := self._theirs.recv(1 << 20):
                for message in self._inbox.feed(data):
                    self._daemon.heard(self, message)
                spoke = True
        return spoke

    def _end(self) -> None:
        self._speak()
        self.kill()

    def kill(self) -> None:
        """End it without a word."""
        if not self.over:
            self.over = True
            self.agent.close()
            self._ours.close()
            self._theirs.close()
            self._daemon.lost(self)

    def stop(self) -> None:
        self.stopped = True
        if self.tide.stops_for is not None:
            self._clock.call_later(self.tide.stops_for, self._go_on)

    def _go_on(self) -> None:
        self.stopped = False

    def next_ns(self) -> int | None:
        return None if self.over or self.stopped else self.agent.next_ns()

    # --- the program: yields when it has to wait

    def _run(self) -> Iterator[None]:
        tide = self.tide
        if tide.framework:
            yield from self._allocate(round(tide.framework * LEASE), persistent=True)
        yield from self._allocate(round(tide.persistent * LEASE), persistent=True)
        for index in range(-unarmed(tide), len(tide.requests) or tide.iterations):
            yield from self._await_request(index)
            self.client.begin(tide.kind is JobKind.INFERENCE, True)
            if index == 0:
                yield from self._pin()
            yield from self._iterate(index)
            self.client.end()
            yield from self._idle() if not tide.ahead or index < 0 else ()
            self._note(index)
        yield from self._idle()
        self.client.leave()
        self._steps += 1
        yield

    def _await_request(self, index: int) -> Iterator[None]:
        """Wait until the request comes. The first comes at once, and times count from its answer."""
        if index < 1 or not self.tide.waits_for_requests:
            return
        self._answered_ns = self._clock.now_ns() if index == 1 else self._answered_ns
        comes_ns = self._answered_ns + round(self.tide.requests[index] * 1e9)
        self._clock.call_later(max(comes_ns - self._clock.now_ns(), 0) / 1e9, lambda: None)
        while self._clock.now_ns() < comes_ns:
            yield
        self._steps += 1

    def _iterate(self, index: int) -> Iterator[None]:
        tide = self.tide
        grows = index >= 0 and (tide.more_in is None or index in tide.more_in)
        blocks = tide.blocks(tide.more if grows else 0)
        addresses: dict[int, int] = {}
        phase = Phase.FORWARD
        for op, step in enumerate(tide.steps):
            if phase is Phase.FORWARD and step.phase is not Phase.FORWARD:
                self.client.end_forward()
            phase = step.phase
            for number, block in enumerate(blocks):
                if block.died == op - 1:
                    self.agent.free(addresses.pop(number))
            for number, block in enumerate(blocks):
                if block.born == op:
                    addresses[number] = yield from self._allocate(block.bytes)
            while not self.agent.try_launch(step.seconds, step.width):
                yield
            self._steps += 1
            self._note(index)
            if index == tide.stops_in and op == len(tide.steps) // 2:
                self.stop()
                yield
            yield from self._idle() if not tide.ahead or index < 0 else ()
        for address in addresses.values():
            self.agent.free(address)

    def _pin(self) -> Generator[None, None, None]:
        large = []
        for _ in range(self.tide.pins):
            large.append((yield from self._allocate(LEASE * 7 // 8)))
            yield from self._allocate(LEASE // 8)
        for address in large:
            self.agent.free(address)

    def _allocate(self, size: int, *, persistent: bool = False) -> Generator[None, None, int]:
        while (address := self.agent.try_allocate(size, persistent=persistent)) is None:
            yield
        self._steps += 1
        return address

    def _idle(self) -> Iterator[None]:
        while not self.agent.idle:
            yield
        self._steps += 1

    def _note(self, index: int) -> None:
        if index >= 0:
            self.held.append((self._clock.now_ns(), self.agent.memory().held_bytes / LEASE))


class Fake:
    """Virtual time."""

    name = "fake"

    def run(self, scene: Scene) -> Facts:
        with tempfile.TemporaryDirectory(prefix="neaptide-") as folder:
            world = _World(scene, RuntimePaths(Path(folder)))
            try:
                world.run()
                return world.facts()
            finally:
                world.close()


class _World:
    def __init__(self, scene: Scene, paths: RuntimePaths) -> None:
        prepare(paths)
        self._scene, self._paths = scene, paths
        self._policy, self._clock, budget = Watched(scene), VirtualClock(), scene.budget * LEASE
        self._board = Board.create(paths.board, budget, Region(None, SMS))
        self._complaints: list[str] = []
        self._daemon = Daemon(
            self._board,
            paths,
            self._policy,
            budget,
            self._clock,
            self._complaints.append,
            self._process_state,
            find_kind("fake"),
            core_waits=lambda _: {},
        )
        self._jobs = [_Job(tide, self._board, self._daemon, self._clock) for tide in scene.tides]
        self._scheduled = False

    def _process_state(self, pid: int, start_time: int) -> ProcessState:  # noqa: ARG002
        """All jobs are this process, so all look stopped while one is; the daemon suspects none that goes on."""
        return ProcessState.STOPPED if any(job.stopped for job in self._jobs) else ProcessState.RUNNING

    def run(self) -> None:
        while not all(job.over for job in self._jobs):
            while sum(job.advance() for job in self._jobs):
                pass
            if self._policy.begun and not self._scheduled:
                self._schedule()
            if all(job.over or job.stopped for job in self._jobs):
                for job in self._jobs:
                    job.stopped = False
            moments = [self._clock.next_ns(), *(job.next_ns() for job in self._jobs)]
            next_ns = min((moment for moment in moments if moment is not None), default=None)
            if next_ns is None or next_ns > _LONGEST_NS:
                raise AssertionError(f"the jobs do not end: {self._board.snapshot()}\n{self._daemon.status()}")
            self._clock.move_to(next_ns)
        self._daemon.close()
        assert not self._complaints

    def _schedule(self) -> None:
        """All jobs have arrived: from now on the scene's moments count."""
        self._scheduled = True
        for seconds, leases in self._scene.budget_changes:
            self._clock.call_later(seconds, partial(self._daemon.heard, _Command(), SetBudget(round(leases * LEASE))))
        for job in self._jobs:
            if job.tide.killed_after is not None:
                self._clock.call_later(job.tide.killed_after, job.kill)

    def facts(self) -> Facts:
        seen = self._board.snapshot()
        return Facts(
            scene=self._scene,
            entries=read_entries(self._paths.events),
            views=self._policy.views,
            held={job.tide.name: job.held for job in self._jobs},
            most_held=seen.high_water_bytes / LEASE,
            held_at_the_end=seen.used_bytes / LEASE,
        )

    def close(self) -> None:
        for job in self._jobs:
            job.kill()
        self._board.close()
