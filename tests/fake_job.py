"""A job on the fake device in real time, for tests of the daemon: the real client and connection, a scripted program.

As a program: python fake_job.py SOCKET BOARD SPEC, where SPEC is a FakeJobSpec in JSON. It prints a line per iteration.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from neaptide.core.control.job import JobKind
from neaptide.devices import Board, DeviceKind, find_kind
from neaptide.live.job.client import Client
from neaptide.live.job.connection import Connection
from neaptide.live.job.measurer import Measured
from neaptide.live.protocol.job_settings import JobSettings
from tides import tide

if TYPE_CHECKING:
    from neaptide.devices.fake.agent import FakeAgent

MIB = 1 << 20
MEASURED = 3  # iterations
_STEPS = 8
_KERNELS = 6  # of a step
_LOOK_SECONDS = 0.002

Waits = Generator[None, None, None]


class FakeJobSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "job"
    persistent: int = 10 * MIB
    ephemeral: int = 40 * MIB
    hoards: int = 0  # bytes that the job takes after it was measured and never gives back
    claims: int = 0  # ephemeral bytes that the trace has and the job does not use
    deadline_seconds: float | None = None
    surprise: int = 0  # ephemeral bytes that the job uses and the trace does not have
    surprise_from: int = 1  # from this iteration on
    iterations: int = 20
    seconds: float = 0.004  # of one iteration
    kind: JobKind = JobKind.TRAINING
    tell_iterations: bool = False
    hangs_at: int | None = None  # the job stops inside this iteration until `go_on`
    hangs_low: bool = False  # stop where the job has given most of its memory back, not at its peak
    pause_at: int | None = None  # the job waits before this iteration until `go_on`
    goes_without_a_word: bool = False


class FakeJob:
    """A job that `run` runs on the calling thread, and `start` on a thread of its own, until `join`."""

    def __init__(
        self,
        sock: Path,
        board: Path,
        spec: FakeJobSpec,
        told: Callable[[int], None] | None = None,
        kind: DeviceKind | None = None,
    ) -> None:
        self.spec = spec
        self.board = Board.open(board)
        self.agent = cast("FakeAgent", (kind or find_kind("fake")).attach(board, spec.name))
        self.slot = self.agent.slot
        told_iterations = spec.iterations + MEASURED if spec.tell_iterations else None
        settings = JobSettings(
            name=spec.name, kind=spec.kind, iterations=told_iterations, deadline_seconds=spec.deadline_seconds
        )
        self.client = Client(self.agent, settings, lambda: _Measurer(spec))
        self.connection = Connection(self.client, self.agent, sock)
        self.done = 0
        self.most = 0  # bytes in use
        self.refused: str | None = None
        self.measured = (0.0, 0.0)
        self.go_on = threading.Event()
        self.stop = threading.Event()
        self.ran: list[tuple[float, float]] = []  # when each iteration began and ended
        self._told = told
        self._thread = threading.Thread(target=self.run, daemon=True)

    @property
    def evictions(self) -> int:
        return self.agent.evictions

    @property
    def ended(self) -> bool:
        """Whether a job that was started has ended."""
        return not self._thread.is_alive()

    def start(self) -> FakeJob:
        self._thread.start()
        return self

    def join(self, seconds: float = 30) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self.spec.name} has not ended: {self.done} iterations"

    def run(self) -> None:
        self.connection.start()
        program = self._program()
        try:
            while not self.stop.is_set():
                next(program, None)
                if program.gi_frame is None:  # type: ignore[attr-defined]
                    break
                self._wait()
        except MemoryError as error:
            self.refused = str(error).partition("was refused: ")[2] if self.client.refused else None
            self.client.fail(str(error))
        finally:
            if self.spec.goes_without_a_word:
                self.agent.disconnect_reports()
            self.connection.leave()
            self.agent.close()
            self.connection.hang_up()

    def _wait(self) -> None:
        """Let the device advance until it has finished something, or for a moment."""
        if self.agent.advance():
            return
        next_ns = self.agent.next_ns()
        soon = _LOOK_SECONDS if next_ns is None else (next_ns - time.monotonic_ns()) / 1e9
        time.sleep(min(max(soon, 0), _LOOK_SECONDS))
        self.agent.advance()

    # --- the program: yields when it has to wait

    def _program(self) -> Waits:
        spec, trains = self.spec, self.spec.kind is JobKind.TRAINING
        yield from self._allocate(spec.persistent, persistent=True)
        began = time.monotonic()
        for _ in range(MEASURED):
            self.client.begin(not trains, True)
            yield from self._work(spec.ephemeral, -1)
            self.client.end()
        self.measured = (began, time.monotonic())
        for index in range(spec.iterations):
            if index == spec.pause_at:
                yield from self._until(self.go_on.is_set)
            self.client.begin(not trains, True)
            if index == 0 and spec.hoards:
                yield from self._allocate(spec.hoards, persistent=True)
            yield from self._work(spec.ephemeral + (spec.surprise if index >= spec.surprise_from else 0), index)
            self.client.end()
            self.done += 1
            if self._told is not None:
                self._told(index)

    def _work(self, ephemeral: int, index: int) -> Waits:
        blocks: list[int] = []
        half, began = _STEPS // 2, 0.0
        for step in range(_STEPS):
            if step < half:
                blocks.append((yield from self._allocate(ephemeral // half)))
            began = began or time.monotonic()
            for _ in range(_KERNELS):
                yield from self._until(lambda: self.agent.try_launch(self.spec.seconds / _STEPS / _KERNELS))
            yield from self._until(lambda: self.agent.idle)
            if step == half - 1:
                self.client.end_forward()
            if index >= 0 and index == self.spec.hangs_at and step == (_STEPS - 1 if self.spec.hangs_low else half - 1):
                yield from self._until(self.go_on.is_set)
            if step >= half:
                self.agent.free(blocks.pop())
        if index >= 0:
            self.ran.append((began, time.monotonic()))
        self.most = max(self.most, self.agent.memory().needed_peak_bytes)

    def _allocate(self, size: int, *, persistent: bool = False) -> Generator[None, None, int]:
        while (address := self.agent.try_allocate(size, persistent=persistent)) is None:
            yield
        return address

    def _until(self, ready: Callable[[], bool]) -> Waits:
        while not ready():
            yield


class _Measurer:
    """A Measurer that knows the trace from the beginning."""

    def __init__(self, spec: FakeJobSpec) -> None:
        self._trace = tide(spec.name, _STEPS * _KERNELS, spec.seconds, spec.persistent, spec.ephemeral + spec.claims)
        self._begun = 0

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:  # noqa: ARG002
        self._begun += 1
        return Measured(self._trace, MEASURED) if self._begun > MEASURED else None

    def end_forward(self) -> None: ...

    def change(self) -> None: ...


def main() -> None:
    spec = msgspec.json.decode(sys.argv[3], type=FakeJobSpec)
    job = FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), spec, lambda index: print(index, flush=True))
    job.run()
    if job.refused is not None:
        raise SystemExit(f"refused: {job.refused}")


if __name__ == "__main__":
    main()
