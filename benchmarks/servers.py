"""Salus's 42 servers (MLSys'20) for real: each a process of its own, their requests in one lane of a device on which
their peaks would not fit.

What it takes to start them is mostly the import of torch, once in each process, on the cores that there are: its time
in one process alone is printed beside.
"""

from __future__ import annotations

import random
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np

from neaptide.core.units import MIB
from neaptide.devices import default_kind
from neaptide.devices.board import Board
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import JobStatus, Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.starting import start_daemon, stop_daemon
from neaptide.reporting.terminal.bench import Figure

SERVERS, REQUESTS_EACH = 42, 10
BUDGET_BYTES = 960 * MIB
PATIENCE_SECONDS = 200.0
_ROOT = Path(__file__).parent.parent  # the folder of the package `benchmarks`


def figures() -> Iterator[Figure]:
    """Start all servers at once, ask each for an answer, and then one at a time in random order."""
    began = monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    yield Figure("import of torch in one process alone", monotonic() - began, "s")
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        paths = RuntimePaths(Path(name) / "run")
        start_daemon(paths, "salus-pack", BUDGET_BYTES)
        try:
            began = monotonic()
            with _servers(paths, Path(name)) as servers:
                _first_answers(servers)
                yield Figure(f"first answer of the last of {SERVERS} servers", monotonic() - began, "s", "<= 60")
                jobs = _measured(paths, servers)
                yield Figure("all measured after", monotonic() - began, "s")
                order = random.Random(0).sample(servers * REQUESTS_EACH, SERVERS * REQUESTS_EACH)
                took_ms = [1e3 * _ask(server) for server in order]
                yield Figure("one request, p50", float(np.percentile(took_ms, 50)), "ms")
                yield Figure("one request, p99", float(np.percentile(took_ms, 99)), "ms")
                yield Figure("budget", BUDGET_BYTES / MIB, "MiB")
                yield Figure("most held", _high_water_bytes(paths) / MIB, "MiB", f"<= {BUDGET_BYTES // MIB}")
                yield Figure("sum of the peaks", sum(job.needs_bytes for job in jobs) / MIB, "MiB")
        finally:
            stop_daemon(paths)


@contextmanager
def _servers(paths: RuntimePaths, folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    settings = default_kind().settings_type(sms=1, cuda_as_soft=False)
    servers = []
    for index in range(SERVERS):
        command = (sys.executable, "-m", "benchmarks._server_job")
        job = JobCommand(name=f"server{index}", command=command, kind="inference")
        with (folder / f"server{index}.log").open("wb") as errors:
            servers.append(
                subprocess.Popen(
                    command,
                    cwd=_ROOT,
                    env=environment_of(job, settings, paths) | {"OMP_NUM_THREADS": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
            )
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()
            server.wait()


def _first_answers(servers: list[subprocess.Popen[str]]) -> None:
    with selectors.DefaultSelector() as waiting:
        for server in servers:
            _send(server)
            assert server.stdout is not None
            waiting.register(server.stdout, selectors.EVENT_READ, server)
        deadline = monotonic() + PATIENCE_SECONDS
        while waiting.get_map():
            answered = waiting.select(max(deadline - monotonic(), 0.0))
            if not answered:
                raise RuntimeError(f"{len(waiting.get_map())} of {len(servers)} servers have not answered in time")
            for key, _ in answered:
                _receive(key.data)
                waiting.unregister(key.fileobj)


def _measured(paths: RuntimePaths, servers: list[subprocess.Popen[str]]) -> list[JobStatus]:
    """The jobs when all are measured; until then each gets requests."""
    deadline = monotonic() + PATIENCE_SECONDS
    while monotonic() < deadline:
        status = ask(paths, StatusRequest())
        assert isinstance(status, Status)
        if len(status.jobs) == len(servers) and all(job.solo_seconds > 0 for job in status.jobs):
            return list(status.jobs)
        for server in servers:
            _ask(server)
    raise RuntimeError("the servers were not measured in time")


def _ask(server: subprocess.Popen[str]) -> float:
    """Seconds to the answer of one request."""
    began = monotonic()
    _send(server)
    _receive(server)
    return monotonic() - began


def _send(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.write("\n")
    server.stdin.flush()


def _receive(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    if not server.stdout.readline():
        raise RuntimeError(f"a server ended with {server.wait()}")


def _high_water_bytes(paths: RuntimePaths) -> int:
    board = Board.open(paths.board)
    try:
        return board.snapshot().high_water_bytes
    finally:
        board.close()
