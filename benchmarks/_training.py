"""Processes that train a network of the zoo on request, so that they can be measured in turns.

As a program: python _training.py DEVICE MODEL SCALE BATCH. It prints that it is ready. For each line of its input it
trains for that many seconds and prints its steps per second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from neaptide.models.zoo import Workload

WARM_UP = 3  # steps


class Network(NamedTuple):
    """A network of the zoo; the scale `short` is GPT-2 with sequences that two cores can train on."""

    name: str
    scale: str
    batch: int

    def __str__(self) -> str:
        return f"{self.name} {self.scale}"


class Trainer:
    """A training process. It trains only for the time that `begin` gives it."""

    def __init__(self, device: str, network: Network, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, device, *map(str, network)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(os.cpu_count()), **environment},
        )
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def rate(self) -> float:
        """Wait for the end of the time that `begin` gave, and return the steps per second."""
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a training process ended with {self._process.wait()}")
        return line


def rate_of(trainers: Sequence[Trainer], seconds: float) -> float:
    """The sum of steps per second of several processes that train at once."""
    for trainer in trainers:
        trainer.begin(seconds)
    return sum(trainer.rate() for trainer in trainers)


def workload(network: Network, device: str) -> Workload:
    """The network on a device."""
    from neaptide.models import build

    name, scale, batch = network
    if scale != "short":
        return build(name, batch=batch, scale=scale, device=device)  # type: ignore[arg-type]
    import torch

    from neaptide.models import feed
    from neaptide.models.attention import Style
    from neaptide.models.gpt import GPT, gelu
    from neaptide.models.zoo import Workload, adam

    style = Style(width=512, heads=8, hidden=2048, activation=gelu, norm_first=True)
    model = GPT(8000, 256, 6, style).to(device)
    sample = feed.tokens(256, 8000)
    return Workload(name, batch, torch.device(device), model, adam(model.parameters()), sample, feed.cross_entropy)


def _train(device: str, name: str, scale: str, batch: str) -> None:
    import torch

    if device == "soft":
        import neaptide.devices.soft  # noqa: F401
    torch.manual_seed(0)
    work = workload(Network(name, scale, int(batch)), device)

    def step() -> None:
        work.step()
        if device == "soft":
            torch.soft.synchronize()

    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        steps, started = 0, perf_counter()
        while perf_counter() - started < float(line):
            step()
            steps += 1
        print(steps / (perf_counter() - started), flush=True)


if __name__ == "__main__":
    _train(*sys.argv[1:])
