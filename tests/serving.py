"""Servers under a daemon, and clients that ask them and know the right answers."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from daemons import until
from hangs import HANGS_SECONDS as SECONDS
from neaptide.live.runs.launching import JobCommand, environment_of
from real_jobs import ONE_SM, RealDaemon

PROGRAM = Path(__file__).parent / "serving_program.py"
MEASURED = 12  # after so many requests a server is measured
CLIENTS = 6


@cache
def right_answer(which: int, number: int) -> int:
    import torch

    from serving_program import answer, network, question

    with torch.no_grad():
        return answer(network(which)(question(number)[None])[0])


class ServerJob:
    """A server of `serving_program`; it is measured when this returns."""

    def __init__(
        self,
        daemon: RealDaemon,
        style: str,
        *,
        name: str = "server",
        rows: int = 1,
        deadline_seconds: float | None = 0.3,
        latency_critical: bool = False,
    ) -> None:
        command = (sys.executable, str(PROGRAM), style, str(rows))
        job = JobCommand(
            name=name,
            command=command,
            kind="inference",
            deadline_seconds=deadline_seconds,
            latency_critical=latency_critical,
        )
        inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = environment_of(job, ONE_SM, daemon.paths, inherited)
        self.name = name
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        daemon.processes.append(self.process)
        assert self.process.stdout is not None
        self._port = int(self.process.stdout.readline())
        self._ask = _grpc_asker(self._port) if style == "grpc" else _http_asker(self._port)
        self.ask_all(range(MEASURED))
        until(lambda: daemon.job(name).solo_seconds > 0, "the server to be measured")

    def ask(self, number: int) -> None:
        """One request to one of its models; the answer must be right."""
        which = number // 8 % 2
        assert self._ask(which, number) == right_answer(which, number)

    def ask_all(self, numbers: Iterable[int], clients: int = CLIENTS) -> int:
        """So many requests by some clients at once; how many were answered, which are all."""
        with ThreadPoolExecutor(clients) as pool:
            return sum(1 for _ in pool.map(self.ask, numbers))


def _http_asker(port: int) -> Callable[[int, int], int]:
    def ask(which: int, number: int) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{which}/{number}", timeout=SECONDS) as said:
            return int(said.read())

    return ask


def _grpc_asker(port: int) -> Callable[[int, int], int]:
    import grpc

    from serving_program import GRPC_METHOD

    call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(GRPC_METHOD)
    return lambda which, number: int(call(f"{which} {number}".encode(), timeout=SECONDS))


def ask_until_it_ends(servers: Sequence[ServerJob], process: subprocess.Popen[str], least: int) -> int:
    """Ask all servers again and again until a training has ended; how many requests were answered."""
    asked = 0
    while asked < least or process.poll() is None:
        for server in servers:
            asked += server.ask_all(range(asked, asked + CLIENTS))
    return asked
