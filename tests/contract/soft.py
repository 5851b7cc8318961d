"""The contract's scenes on the device `soft`: a daemon on a thread of this process, and a process per job."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import tempfile
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from contract import soft_job
from contract.world import LEASE, Facts, Scene, Tide, Watched
from daemons import DaemonThread, until
from hangs import HANGS_SECONDS
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import SetBudget
from neaptide.reporting.logs.log_file import read_runs

_BUILD_SECONDS = 400.0  # the first job may have to build the device


class Soft:
    """Real processes. The first one loads torch for all of them."""

    name = "soft"

    def __init__(self) -> None:
        self._context = mp.get_context("forkserver")
        self._context.set_forkserver_preload(["torch", "contract.soft_job"])

    def run(self, scene: Scene) -> Facts:
        with tempfile.TemporaryDirectory(prefix="neaptide-") as folder:
            policy = Watched(scene)
            daemon = DaemonThread(Path(folder) / "run", policy, scene.budget * LEASE)
            began_ns = daemon.server.daemon._clock.device_ns(0)
            jobs = _Jobs(self._context, scene, daemon, Path(folder))
            try:
                jobs.run()
                until(lambda: not daemon.board.snapshot().slots, "all jobs to leave the board")
                until(lambda: _all_ended(daemon), "the daemon to see that all jobs left")
                seen = daemon.board.snapshot()
            except AssertionError as error:
                raise AssertionError(f"{error}\n{daemon.board.snapshot()}\n{daemon.status()}") from None
            finally:
                jobs.end()
                daemon.stop()
            return Facts(
                scene=scene,
                entries=list(read_runs(daemon.paths.events)[-1].entries),
                views=policy.views,
                held={tide.name: jobs.held(tide, began_ns) for tide in scene.tides},
                most_held=seen.high_water_bytes / LEASE,
                held_at_the_end=seen.used_bytes / LEASE,
            )


class _Jobs:
    def __init__(self, context: mp.context.ForkServerContext, scene: Scene, daemon: DaemonThread, folder: Path) -> None:
        self._context, self._scene, self._daemon, self._folder = context, scene, daemon, folder
        self._processes: dict[str, BaseProcess] = {}

    def run(self) -> None:
        for tide in self._scene.tides:
            self._start(tide)
        began = time.monotonic()
        changes = sorted(self._scene.budget_changes)
        while any(process.is_alive() for process in self._processes.values()):
            passed = time.monotonic() - began
            assert passed < HANGS_SECONDS, "the jobs do not end"
            if changes and passed >= changes[0][0]:
                ask(self._daemon.paths, SetBudget(round(changes.pop(0)[1] * LEASE)))
            self._misuse(passed)
            time.sleep(0.002)

    def _start(self, tide: Tide) -> None:
        """Start a job and wait until the daemon knows its trace."""
        arguments = (tide, self._daemon.paths.socket, self._daemon.paths.board, self._record(tide))
        process = self._processes[tide.name] = self._context.Process(target=soft_job.run, args=arguments, daemon=True)
        process.start()
        here = len(self._processes)
        until(lambda: self._arrivals() >= here or not process.is_alive(), f"{tide.name} to arrive", _BUILD_SECONDS)

    def _arrivals(self) -> int:
        return len({job.name for job in self._daemon.status().jobs if job.needs_bytes})

    def _misuse(self, passed: float) -> None:
        for tide in self._scene.tides:
            process = self._processes[tide.name]
            others = [other for name, other in self._processes.items() if name != tide.name]
            if tide.stops_in is not None and not any(other.is_alive() for other in others):
                _signal(process, signal.SIGCONT)
            if tide.killed_after is not None and passed >= tide.killed_after:
                _signal(process, signal.SIGKILL)

    def end(self) -> None:
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
            process.join()

    def held(self, tide: Tide, began_ns: int) -> list[tuple[int, float]]:
        lines = [line.split() for line in self._record(tide).read_text().splitlines()]
        return [(int(at_ns) - began_ns, float(held)) for at_ns, held in lines]

    def _record(self, tide: Tide) -> Path:
        return self._folder / f"{tide.name}.held"


def _all_ended(daemon: DaemonThread) -> bool:
    return all(job.state.ended for job in daemon.status().jobs)


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    if process.pid is not None and process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
