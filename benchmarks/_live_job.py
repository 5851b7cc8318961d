"""A job for the benchmarks of live sharing: trains a network until the file `stop` exists.

Each line of its output file is the time at which the program saw that the device had ended an iteration, in nanoseconds
of the machine's clock; with a kernel log, the times at which the device began and ended the iteration. With a number of
iterations it does these and ends.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from itertools import cycle
from pathlib import Path
from time import monotonic_ns

import torch
from benchmarks._networks import NETWORKS, to_device

import neaptide.devices.soft  # noqa: F401
from neaptide.models.zoo import recipe

LOGGED = 1 << 18  # kernels
AHEAD = (
    2  # iterations launched ahead of the device: a job alone would launch without end, and its launches prove nothing
)
VARIED = 12  # batches of different sizes
BATCHES = 4  # made in advance: making them would take the software GPU's cores


def sizes(batch: int, vary: bool, name: str) -> list[int]:
    """The sizes of the batches: all equal, or from a third of the largest to the largest, in the job's own order."""
    if not vary:
        return [batch] * BATCHES
    varied = [batch // 3 + (batch - batch // 3) * part // (VARIED - 1) for part in range(VARIED)]
    return random.Random(name).sample(varied, VARIED)


def main(network: str, batch: str, varies: str, folder: str, name: str, logged: str) -> None:
    """Train until the file `stop` exists; `logged` is yes, no, or a number of iterations."""
    torch.manual_seed(0)
    chosen = NETWORKS[network] if network in NETWORKS else recipe(network, "tiny")
    model = chosen.module().to("soft", memory_format=torch.channels_last)
    optimizer = chosen.optimizer(model.parameters())
    batches = cycle([chosen.sample(size) for size in sizes(int(batch), varies == "yes", name)])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        *inputs, target = to_device(next(batches))
        chosen.criterion(model(*inputs), target).backward()
        optimizer.step()

    if logged.isdecimal():
        for _ in range(int(logged)):
            step()
        torch.soft.synchronize()
        return
    stop, start = Path(folder) / "stop", Path(folder) / "start"
    while not stop.exists() and not start.exists():
        step()
    if logged == "yes":
        torch.soft.synchronize()
        begun: list[int] = []  # kernels launched before each iteration and at its end, as the permit counts them
        ended: list[int] = []
        model.register_forward_pre_hook(lambda *_: begun.append(torch.soft.launched() - before))
        optimizer.register_step_post_hook(lambda *_: ended.append(torch.soft.launched() - before))
        with torch.soft.log_kernels(LOGGED):
            before = torch.soft.launched()
            while not stop.exists() and (not ended or ended[-1] < LOGGED // 2):
                step()
            torch.soft.synchronize()
        log = torch.soft.kernel_log()
        rows = [f"{log[first].start_ns} {log[end - 1].end_ns}" for first, end in zip(begun, ended, strict=True)]
        (Path(folder) / f"{name}.times").write_text("\n".join(rows) + "\n")
        return
    with (Path(folder) / f"{name}.times").open("w", buffering=1) as times:
        torch.soft.synchronize()
        launched: deque[torch.Event] = deque()
        while not stop.exists():
            step()
            launched.append(torch.soft.Event())
            launched[-1].record()
            if len(launched) > AHEAD:
                launched.popleft().synchronize()
                times.write(f"{monotonic_ns()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
