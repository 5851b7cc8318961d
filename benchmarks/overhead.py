"""How much slower one job alone is under the daemon."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks._training import Network, Trainer, rate_of

from neaptide.devices import default_kind
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.starting import start_daemon, stop_daemon
from neaptide.reporting.terminal.bench import Figure

# Steps of about 10, 40 and 300 ms on two cores.
NETWORKS = (Network("gpt2", "tiny", 4), Network("resnet18", "tiny", 64), Network("resnet18", "paper", 4))
PAIRS = 5  # of processes; two processes of one program may differ by some per cent as long as they live
ROUNDS = 4
SECONDS = 1.5
MEASURED_SECONDS = 4.0  # the daemon measures a job in its first iterations


def figures() -> Iterator[Figure]:
    """A plain process and one under the daemon take turns, so that a disturbance affects both."""
    for network in NETWORKS:
        rounds = [each for _ in range(PAIRS) for each in _pair(network)]
        yield Figure(f"{network}: plain step", 1e3 / max(rate for rate, _ in rounds), "ms")
        ratio = median(on_its_own / managed for on_its_own, managed in rounds)
        yield Figure(f"{network}: a step under the daemon", ratio, "x", "<= 1.01")


def _pair(network: Network) -> list[tuple[float, float]]:
    with tempfile.TemporaryDirectory(prefix="npt-") as folder:
        paths = RuntimePaths(Path(folder) / "run")
        start_daemon(paths, "neaptide", 8 << 30)
        try:
            job = JobCommand(name="job", command=())
            under_daemon = environment_of(job, default_kind().settings_type(cuda_as_soft=False), paths)
            with Trainer("soft", network) as plain, Trainer("soft", network, **under_daemon) as under:
                rate_of([under], MEASURED_SECONDS)
                return [_round(plain, under, index) for index in range(ROUNDS)]
        finally:
            stop_daemon(paths)


def _round(plain: Trainer, under: Trainer, index: int) -> tuple[float, float]:
    if index % 2:
        managed = rate_of([under], SECONDS)
        return rate_of([plain], SECONDS), managed
    return rate_of([plain], SECONDS), rate_of([under], SECONDS)
