"""Jobs and the daemon stopped at any moment and continued: python tests/campaigns/stop_and_continue.py 300."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.witnesses import MOST_GROWTH_BYTES, Figures, Witnesses, main, memory_bytes
from daemons import MIB, SECONDS, DaemonProcess, until
from fake_job import FakeJob, FakeJobSpec
from neaptide.devices.board import Board

AT_ONCE = 3
SILENT_SECONDS = 4.0  # longer than jobs wait for a daemon that says nothing
JOB_STOPS = (0.0, 0.02, 0.1, 0.5, 1.5)  # the daemon notices the longer ones
UNTIL_MEMORY_SECONDS = 10.0
DAEMON_STOPS = (0.0, 0.1, 1.0, SILENT_SECONDS)


def _run(socket: Path, board: Path, spec: FakeJobSpec) -> None:
    job = FakeJob(socket, board, spec)
    job.run()
    if job.done != spec.iterations:
        raise SystemExit(f"{spec.name} ended after {job.done} of {spec.iterations} iterations: {job.refused}")


@dataclass(frozen=True, slots=True)
class _Process:
    """A process and a descriptor of it: a signal never reaches another process that has got its pid."""

    descriptor: int
    job: ForkServerProcess | None  # None: it is the daemon

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # a job may end at any moment
            signal.pidfd_send_signal(self.descriptor, number)

    @property
    def is_alive(self) -> bool:
        return self.job is None or self.job.is_alive()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)


class _Jobs:
    """Jobs that are stopped. Each does its iterations and ends, and another takes its place."""

    def __init__(self, daemon: DaemonProcess, chance: random.Random) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["fake_job", "neaptide.devices.fake.agent"])
        self._daemon = daemon
        self._chance = chance
        self._running: list[_Process] = []
        self._started = 0

    def any_one(self) -> _Process:
        """One that runs; those that have ended are replaced first."""
        for process in [process for process in self._running if not process.is_alive]:
            self._see_off(process)
        while len(self._running) < AT_ONCE:
            self._running.append(self._start())
        return self._chance.choice(self._running)

    def end(self) -> None:
        """Wait until all have done their iterations."""
        while self._running:
            self._see_off(self._running[0])

    def kill(self) -> None:
        for process in self._running:
            process.signal(signal.SIGKILL)

    def _start(self) -> _Process:
        # With the honest jobs three of them need more than the budget, and one that is stopped leaves enough for each.
        spec = FakeJobSpec(
            name=f"stopped-{self._started}",
            persistent=self._chance.randint(2, 4) * MIB,
            ephemeral=self._chance.randint(8, 24) * MIB,
            surprise=self._chance.choice([0, 0, 4]) * MIB,
            iterations=self._chance.choice([20, 200]),
            seconds=self._chance.choice([0.002, 0.02]),
        )
        self._started += 1
        process = self._context.Process(target=_run, args=(self._daemon.paths.socket, self._daemon.paths.board, spec))
        process.start()
        assert process.pid is not None
        return _Process(os.pidfd_open(process.pid), process)

    def _see_off(self, process: _Process) -> None:
        job = process.job
        assert job is not None
        job.join(SECONDS)
        assert job.exitcode is not None, f"{job.name} stands still"
        assert job.exitcode == 0, f"{job.name} ended with {job.exitcode}"
        self._running.remove(process)
        os.close(process.descriptor)
        job.close()


def _goes_on_unless_memory_lacks(job: FakeJob) -> None:
    """Wait until a job has done more. Without a daemon, iterations may wait for each other's memory until it speaks."""
    before, enough = job.done, time.monotonic() + UNTIL_MEMORY_SECONDS
    until(
        lambda: job.done >= before + 2 or (time.monotonic() > enough and job.board.progress(job.slot).wanted_bytes > 0),
        f"{job.spec.name} to go on after {before}",
    )


def stop_and_continue(daemon: DaemonProcess, count: int, seed: int = 1) -> Figures:
    """Stop jobs and the daemon so many times, sometimes both; all jobs do their iterations, and nothing is lost."""
    chance = random.Random(seed)
    board = Board.open(daemon.paths.board)
    honest = [
        daemon.run(name=name, iterations=10**9, persistent=5 * MIB, ephemeral=20 * MIB) for name in ("one", "two")
    ]
    witnesses = Witnesses(honest)
    jobs = _Jobs(daemon, chance)
    the_daemon = _Process(os.pidfd_open(daemon.process.pid), None)
    warm_bytes = stops = 0
    try:
        while stops < count:
            job = jobs.any_one()
            time.sleep(chance.choice([0.0, 0.02, 0.1, 0.3]))
            chosen = chance.choice([[job], [job], [the_daemon], [the_daemon, job]])[: count - stops]
            seconds = chance.choice(DAEMON_STOPS if the_daemon in chosen else JOB_STOPS)
            with ExitStack() as going_on:
                for process in chosen:
                    going_on.enter_context(process.stopped())
                time.sleep(seconds)
                if seconds == SILENT_SECONDS:
                    for witness in honest:
                        _goes_on_unless_memory_lacks(witness)
                elif seconds == max(JOB_STOPS):
                    witnesses.all_go_on()
                stops += sum(process.is_alive for process in chosen)  # a job may have ended before
            witnesses.all_go_on()
            assert board.snapshot().used_bytes <= daemon.budget
            if warm_bytes == 0 and stops >= count // 10:
                warm_bytes = memory_bytes(daemon.process.pid)
        jobs.end()
    finally:
        jobs.kill()
        os.close(the_daemon.descriptor)
    until(lambda: sum(not job.state.ended for job in daemon.status().jobs) == 2, "the jobs to be gone")
    until(lambda: daemon.status().used_bytes <= 2 * 25 * MIB, "their memory to be back")
    until(lambda: len(board.snapshot().slots) == 2, "their slots to be free")
    assert not [job for job in daemon.status().jobs if job.state == "failed"]
    assert board.snapshot().high_water_bytes <= daemon.budget
    figures = witnesses.figures(stops, memory_bytes(daemon.process.pid) - warm_bytes)
    assert figures.grown_bytes < MOST_GROWTH_BYTES, figures
    board.close()
    return figures


if __name__ == "__main__":
    main(stop_and_continue)
