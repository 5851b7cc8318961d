"""A job without torch: a member of the board that speaks the protocol and makes tides of leases, for tests.

As a program: python fake_job.py SOCKET BOARD SPEC, where SPEC is a FakeJobSpec in JSON. It prints a line per iteration.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from line import Line
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import PERMIT_ALL, Board, Request, SlotState
from neaptide.devices.board.member import Member
from neaptide.live.protocol import messages as say

MIB = 1 << 20
_STEPS = 8
_LOOK_SECONDS = 0.002


class FakeJobSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "job"
    persistent: int = 10 * MIB
    ephemeral: int = 40 * MIB
    hoards: int = 0  # bytes that it takes after it was measured and never gives back
    claims: int = 0  # more ephemeral bytes in the trace than there are
    deadline_seconds: float | None = None
    surprise: int = 0  # more ephemeral bytes than the trace says, from the second iteration on
    iterations: int = 20
    seconds: float = 0.004  # of one iteration
    kind: JobKind = JobKind.TRAINING
    tell_iterations: bool = False
    hangs_at: int | None = None  # stands still inside this iteration until `go_on`
    hangs_low: bool = False  # where it has given most of its memory back, not where it holds all
    pause_at: int | None = None  # does nothing before this iteration until `go_on`
    goes_without_a_word: bool = False


class Stopped(Exception):  # noqa: N818 - it is no error
    """The test has ended the job."""


class FakeJob:
    """Runs on the calling thread, or on one of its own between `start` and `join`."""

    def __init__(self, sock: Path, board: Path, spec: FakeJobSpec, told: Callable[[int], None] | None = None) -> None:
        from tides import tide

        self.spec = spec
        self.trace = encode(tide(spec.name, 50, spec.seconds, spec.persistent, spec.ephemeral + spec.claims))
        self.path = sock
        self.board = Board.open(board)
        self.member = Member(self.board, spec.name)
        self.line: Line | None = None
        self.held = 0
        self.most = 0
        self.done = 0
        self.evictions = 0
        self.refused: str | None = None
        self.out_of_memory = False
        self.measured = (0.0, 0.0)
        self.go_on = threading.Event()
        self.stop = threading.Event()
        self.ran: list[tuple[float, float]] = []  # when each iteration began and ended
        self._told = told
        self._over = threading.Event()
        self._listener: threading.Thread | None = None
        self._thread = threading.Thread(target=self.run, daemon=True)

    def start(self) -> FakeJob:
        self._thread.start()
        return self

    def join(self, seconds: float = 30) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self.spec.name} has not ended: {self.done} iterations"

    def run(self) -> None:
        try:
            with suppress(Stopped):
                self._run()
        finally:
            self._over.set()
            if self.line is not None:
                self.line.close()
            if self._listener is not None:
                self._listener.join()
            if self.line is not None:
                self.line.close()
            self.member.leave()

    def _run(self) -> None:
        spec = self.spec
        self._connect(resumed=False)
        if self.refused is not None:
            return
        self.take(spec.persistent)
        began = time.monotonic()
        for _ in range(3):
            self._work(spec.ephemeral, lambda _: None)
        self.measured = (began, time.monotonic())
        self._say(say.Profiled(self.trace, 3))
        self.take(spec.hoards)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        for index in range(spec.iterations):
            if self.refused is not None or self.stop.is_set():
                return
            if index == spec.pause_at:
                self._wait(self.go_on.is_set)
            if spec.kind is JobKind.INFERENCE:
                self._serve()  # what it is asked is copied to the device first
                self._say(say.RequestArrived())
            number = self.member.begin_iteration()
            self._await_permit(number)
            if self.refused is not None:
                return
            began = time.monotonic()
            extra = spec.surprise if index else 0
            self._work(spec.ephemeral + extra, lambda step, index=index: self._inside(step, index))
            self.member.end_iteration()
            self.ran.append((began, time.monotonic()))
            self.done += 1
            self._say(say.IterationEnded(number, 1.0, max(round((time.monotonic() - began) * 1e9), 1)))
            if self._told is not None:
                self._told(index)
        if not spec.goes_without_a_word:
            self._say(say.Goodbye())

    def _connect(self, resumed: bool) -> None:
        spec = self.spec
        self.line = Line(self.path)
        hello = say.Hello(
            pid=os.getpid(),
            slot=self.member.slot,
            job=spec.name,
            kind=spec.kind,
            deadline_seconds=spec.deadline_seconds,
            iterations=spec.iterations + 3 if spec.tell_iterations else None,
            ended=self.done,
            resumed=resumed,
            trace=self.trace if resumed else None,
        )
        self.line.say(hello)
        if resumed:
            return
        while not isinstance(said := self.line.hear(), say.Turn):
            if isinstance(said, say.JobRefused) or said is None:
                self.refused = "gone" if said is None else said.reason
                return

    def _say(self, message: say.Message) -> None:
        with suppress(OSError):
            if self.line is not None:
                self.line.say(message)

    def _listen(self) -> None:
        """Until the daemon is gone; then alone, and back when there is one."""
        while not self._over.is_set():
            assert self.line is not None
            try:
                self.line.socket.settimeout(None)  # a daemon with nothing to say is not gone
                said = self.line.hear()
            except OSError:
                said = None
            if isinstance(said, say.JobRefused):
                self.refused = said.reason
                return
            if said is None and not self._over.is_set():
                self.line.close()
                self.board.set_permit(self.member.slot, PERMIT_ALL)
                if self.board.progress(self.member.slot).state in (SlotState.EVICTED, SlotState.SUSPENDED):
                    self.board.set_request(self.member.slot, Request.RESTORE)
                self._over.wait(0.05)
                with suppress(OSError):
                    self._connect(resumed=True)

    # --- memory

    def _work(self, ephemeral: int, at_step: Callable[[int], None]) -> None:
        part = ephemeral // (_STEPS // 2)
        for step in range(_STEPS):
            if step < _STEPS // 2:
                self.take(part)
            at_step(step)
            self._serve()
            time.sleep(self.spec.seconds / _STEPS)
            self.member.count(6, 6)
            if step >= _STEPS // 2:
                self.give(part)

    def _inside(self, step: int, index: int) -> None:
        if step == _STEPS // 2 - 1:
            self._say(say.PhaseEnded(Phase.FORWARD))
        if index == self.spec.hangs_at and step == (_STEPS - 1 if self.spec.hangs_low else _STEPS // 2 - 1):
            self._wait(self.go_on.is_set)

    def take(self, count: int) -> None:
        while not self.member.take(count, _LOOK_SECONDS):
            self._serve()
            if self.stop.is_set():
                raise Stopped
            if self.held + count > self.board.snapshot().capacity_bytes:
                self.out_of_memory = True
                raise SystemExit(f"{self.spec.name}: out of memory")
        self.held += count
        self.most = max(self.most, self.held)

    def give(self, count: int) -> None:
        self.member.give(count)
        self.held -= count

    def _await_permit(self, number: int) -> None:
        if not self.member.wait_permit(number, 0):
            self.member.set_state(SlotState.WAITING_PERMIT)
            while not self.member.wait_permit(number, _LOOK_SECONDS):
                self._serve()
                if self.refused is not None or self.stop.is_set():
                    return
        self.member.set_state(SlotState.RUNNING)

    def _wait(self, ready: Callable[[], bool]) -> None:
        while not ready() and not self.stop.is_set():
            self._serve()
            time.sleep(_LOOK_SECONDS)

    def _serve(self) -> None:
        request = self.member.request
        if request in (Request.RESTORE, Request.RESUME):
            self.member.finish_request(request)
        if request not in (Request.EVICT, Request.SUSPEND):
            return
        self.evictions += 1
        count, self.held = self.held, 0
        if count:
            self.member.give(count)
        self.member.set_state(SlotState.EVICTED if request is Request.EVICT else SlotState.SUSPENDED)
        self.member.finish_request(request)
        while (answer := self.member.request) not in (Request.RESTORE, Request.RESUME):
            if self.stop.is_set():
                raise Stopped
            time.sleep(_LOOK_SECONDS)
        while count and not self.member.take(count, _LOOK_SECONDS):
            if self.stop.is_set():
                raise Stopped
        self.held = count
        self.member.set_state(SlotState.RUNNING)
        self.member.finish_request(answer)


def main() -> None:
    spec = msgspec.json.decode(sys.argv[3], type=FakeJobSpec)
    job = FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), spec, lambda index: print(index, flush=True))
    job.run()
    if job.refused is not None:
        raise SystemExit(f"refused: {job.refused}")


if __name__ == "__main__":
    main()
