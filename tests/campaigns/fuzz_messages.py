"""Fuzzed messages against a daemon with two honest jobs: python tests/campaigns/fuzz_messages.py 100000."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from board_member import Member
from campaigns.witnesses import MOST_GROWTH_BYTES, Figures, Witnesses, main, memory_bytes
from daemons import MIB, DaemonProcess, until
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.devices.board import Board
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import frame
from scripted_daemon import trace
from trace_bombs import bomb, file_of, small_header

TRACES = (
    trace(2, 4),
    trace(10, 300),
    trace(2, 4)[:-3],
    b"",
    bomb(2 << 30, 1 << 20),
    bomb(1 << 20, 1 << 20),
    file_of({**small_header(), "batch": 1 << 31}, b""),
)
ODD = (
    0,
    1,
    2,
    63,
    64,
    255,
    2**31 - 1,
    2**32 - 1,
    2**32,
    2**50,
    2**63 - 1,
    2**64 - 1,
    -1,
    -(2**31),
    1e300,
    float("nan"),
)


class Fuzzer:
    """Makes messages: right ones in the wrong place, wrong values in right ones, and bytes that are none."""

    def __init__(self, chance: random.Random, slots: list[int]) -> None:
        self._chance = chance
        self._slots = slots

    def message(self) -> bytes:
        """One fuzzed frame."""
        make: Callable[[], bytes] = self._chance.choice(
            [self._right, self._right, self._right, self._odd, self._flipped, self._noise, self._half]
        )
        return make()

    def hello(self) -> bytes:
        """The right beginning of a job."""
        chance = self._chance
        return frame(
            say.Hello(
                pid=os.getpid(),
                slot=chance.choice(self._slots),
                job=chance.choice(["x", "y", "\x1b[31m", "\u202e", "z" * 63]),
                kind=chance.choice(list(JobKind)),
                iterations=chance.choice([None, 1, 2**32 - 1]),
                priority=chance.choice([0, -(2**31), 2**31 - 1]),
                ended=chance.choice([0, 5, 2**32 - 1]),
                resumed=chance.random() < 0.5,
                trace=chance.choice([None, *TRACES]),
                lease_overhead=chance.choice([(0, 0, 0), (2**50, 2**50, 2**50)]),
            )
        )

    def _right(self) -> bytes:
        chance = self._chance
        messages: list[say.Message] = [
            say.Profiled(chance.choice(TRACES), chance.choice([0, 2**32 - 1])),
            say.RequestArrived(),
            say.RequestExpected(chance.choice([1, 2**62 - 1]), chance.choice([None, 10**15])),
            say.RequestCalled(chance.choice([1, 2]), chance.choice([0, 10**15]), chance.random() < 0.5),
            say.RequestAnswered(chance.choice([1, 2]), chance.choice([0, 10**15])),
            say.PhaseEnded(chance.choice(list(Phase))),
            say.IterationEnded(
                chance.choice([0, 1, 2**32 - 1]), chance.choice([1e-9, 1.0, 1e6]), 1, chance.choice([0, 10**15])
            ),
            say.Grew(chance.choice([1, 30 * MIB, 2**50])),
            say.Failed("because \x1b[2J"),
            say.Goodbye(),
            say.StatusRequest(),
            say.Watch(),
            say.SetBudget(chance.choice([1, 100 * MIB, 101 * MIB])),
        ]
        return self.hello() if chance.random() < 0.1 else frame(chance.choice(messages))

    def _odd(self) -> bytes:
        said = msgspec.msgpack.decode(self._right()[4:])
        key = self._chance.choice(sorted(said))
        said[key] = self._chance.choice([*ODD, "", "\ud7ff" * 40, None, [], {}, [[]] * 50, True])
        if said.get("say") == "SetBudget":
            said["bytes"] = -1
        return _framed(msgspec.msgpack.encode(said))

    def _flipped(self) -> bytes:
        data = bytearray(self._right())
        for _ in range(self._chance.randint(1, 4)):
            data[self._chance.randrange(4, len(data))] ^= 1 << self._chance.randrange(8)
        return b"" if b"SetBudget" in data else bytes(data)

    def _noise(self) -> bytes:
        return _framed(self._chance.randbytes(self._chance.choice([1, 5, 50, 5000])))

    def _half(self) -> bytes:
        data = self._right()
        return data[: self._chance.randrange(len(data))]


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def fuzz(daemon: DaemonProcess, count: int, seed: int = 1) -> Figures:
    """Send so many fuzzed messages, each connection a few of them."""
    chance = random.Random(seed)
    board = Board.open(daemon.paths.board)
    witnesses = Witnesses(
        [daemon.run(name=name, iterations=10**9, persistent=5 * MIB, ephemeral=20 * MIB) for name in ("one", "two")]
    )
    members = [Member(board, f"fuzz-{number}") for number in range(4)]
    fuzzer = Fuzzer(chance, [member.slot for member in members])
    sent, warm, warm_bytes, round_of = 0, max(count // 10, 50), 0, 0
    while sent < count:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            line.connect(str(daemon.paths.socket))
            frames = [fuzzer.hello()] if chance.random() < 0.7 else []
            frames += [fuzzer.message() for _ in range(chance.randint(1, 12))]
            with suppress(OSError):
                line.sendall(b"".join(frames))
                if chance.random() < 0.5:
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(1 << 16):
                        pass
        before, sent = sent, sent + len(frames)
        if before < warm <= sent:
            warm_bytes = memory_bytes(daemon.process.pid)
        if (round_of := round_of + 1) % 200 == 0:
            witnesses.all_go_on()
            assert daemon.answers()
    for member in members:
        member.leave()
    until(lambda: sum(not job.state.ended for job in daemon.status().jobs) == 2, "the fuzzed jobs to be gone")
    figures = witnesses.figures(sent, memory_bytes(daemon.process.pid) - warm_bytes)
    assert figures.grown_bytes < MOST_GROWTH_BYTES, figures
    assert len(board.snapshot().slots) == 2
    board.close()
    return figures


if __name__ == "__main__":
    main(fuzz)
