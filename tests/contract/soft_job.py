"""A job of the contract on the device `soft`: a process of its own that makes the tide of its description.

The client, the device and the board are the real ones. Only the search for iterations and the measuring of the first
ones are replaced, so that an iteration is exactly what the description says.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from contract.script import ScriptedMeasurer, known_of, settings_of, unarmed
from contract.world import LEASE, SMS, Step, Tide
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.devices import find_kind
from neaptide.devices.board import Board
from neaptide.live.job.client import Client
from neaptide.live.job.connection import Connection

_LOOK_SECONDS = 0.002
_LONGEST_SECONDS = 10.0


def run(tide: Tide, socket: Path, board: Path, record: Path) -> None:
    """The process."""
    import torch

    torch.set_num_threads(1)
    os.environ["NEAPTIDE_SOFT_SMS"] = str(SMS)  # tests/soft, if they run in this process too, set one
    agent = find_kind("soft").attach(board, tide.name)
    client = Client(
        agent, settings_of(tide), lambda: ScriptedMeasurer(tide, agent, opening_kernels=1), known=known_of(tide)
    )
    connection = Connection(client, agent, socket)
    connection.start()
    _Program(tide, client, Board.open(board), record).run()
    connection.leave()
    agent.close()


class _Program:
    def __init__(self, tide: Tide, client: Client, board: Board, record: Path) -> None:
        import torch

        from neaptide.devices.soft import native

        self.tide, self.client, self.board, self.native = tide, client, board, native
        self.empty = lambda size: torch.empty(size, dtype=torch.uint8, device="soft")
        self.record = record.open("w", buffering=1)
        self.measured = False
        self.answered = 0.0  # when its first request was answered
        native.set_persistent(True)
        self.framework = self.empty(round(tide.framework * LEASE))
        self.weight = self.empty(round(tide.persistent * LEASE))
        native.set_persistent(False)
        self.weight[:1].fill_(0)

    def run(self) -> None:
        tide = self.tide
        for index in range(-unarmed(tide), len(tide.requests) or tide.iterations):
            if index == 0:
                self.native.empty_cache()
                self.measured = True
            self.await_request(index)
            self.client.begin(tide.kind is JobKind.INFERENCE, True)
            self.iterate(index)
            self.client.end()
            if not tide.ahead:
                self.native.synchronize()
            self.note()

    def await_request(self, index: int) -> None:
        """Wait until the request comes. The first comes at once, and times count from its answer."""
        if index < 1 or not self.tide.waits_for_requests:
            return
        self.answered = time.monotonic() if index == 1 else self.answered
        time.sleep(max(self.answered + self.tide.requests[index] - time.monotonic(), 0))

    def iterate(self, index: int) -> None:
        tide = self.tide
        grows = index >= 0 and (tide.more_in is None or index in tide.more_in)
        blocks = tide.blocks(tide.more if grows else 0)
        alive: dict[int, object] = {}
        phase = Phase.FORWARD
        self.weight[:1].fill_(0)
        for op, step in enumerate(tide.steps):
            if phase is Phase.FORWARD and step.phase is not Phase.FORWARD:
                self.client.end_forward()
            phase = step.phase
            for number, block in enumerate(blocks):
                if block.died == op - 1:
                    del alive[number]
                elif block.born == op:
                    alive[number] = self.empty(block.bytes)
            (self.weight if step.width > 1 else self.weight[:1]).fill_(op)
            if not tide.ahead:
                self.native.synchronize()
            self.note()
            self.pass_time(step, index)
            if op == len(tide.steps) // 2:
                self.misbehave(index)
        alive.clear()

    def pass_time(self, step: Step, index: int) -> None:
        if self.tide.ahead:
            return
        time.sleep(step.seconds)
        if step.until is None or index < 0:
            return
        end = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < end and not self.board_shows_end_or_wait(step.until):
            time.sleep(_LOOK_SECONDS)

    def board_shows_end_or_wait(self, job: str) -> bool:
        slots = [slot for slot in self.board.snapshot().slots if slot.job == job]
        return not slots or slots[0].wanted_bytes > 0

    def misbehave(self, index: int) -> None:
        if index == self.tide.stops_in:
            os.kill(os.getpid(), signal.SIGSTOP)
        if index == self.tide.killed_in:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self) -> None:
        if self.measured:
            held = self.native.memory()["held"]
            self.record.write(f"{time.monotonic_ns()} {held / LEASE}\n")
