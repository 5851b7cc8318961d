"""A process that launches ops on a GPU, as each line says, with torch's own allocator or, given a board, with ours.

`reuse 100` and `allocate 100` launch so many ops, without and with an allocation, and say what a launch took of this
thread's time in ns; `view 100` makes views, which launch nothing. `step 3` trains GPT-2 for so many steps and says what
one took, and of all threads' time, in ns, and how many ops the board counted of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import torch

from neaptide.devices import DeviceAgent, find_kind
from neaptide.models import build

Do = Callable[[int], str]


def main(board: str = "") -> None:
    """Until the input ends."""
    agents: list[DeviceAgent] = []
    if board:
        kind = find_kind("cuda")

        def first_use() -> None:
            agents.append(kind.attach(Path(board), "launches"))
            agents[0].release_launches()

        kind.prepare(first_use)
    tensor = torch.zeros(1024, device="cuda")
    does: dict[str, Do] = {
        "reuse": lambda count: _launch(lambda: tensor.add_(1.0), count),
        "allocate": lambda count: _launch(lambda: torch.add(tensor, 1.0), count),
        "view": lambda count: _launch(lambda: tensor.view(32, 32), count),
        "step": lambda count: _steps(count, agents[0] if agents else None),
    }
    for line in iter(sys.stdin.readline, ""):
        word, count = line.split()
        print(does[word](int(count)), flush=True)


def _launch(op: Callable[[], torch.Tensor], count: int) -> str:
    torch.cuda.synchronize()
    began = time.thread_time_ns()
    for _ in range(count):
        op()
    spent = time.thread_time_ns() - began
    torch.cuda.synchronize()
    return str(spent / count)


@cache
def _gpt2(agent: DeviceAgent | None) -> Callable[[], object]:
    """A step of a training whose first steps were logged, as those of a job are that is measured."""
    step = build("gpt2", 2, "tiny", device="cuda").step
    with nullcontext() if agent is None else agent.log_kernels(1):
        for _ in range(2):
            step()
    return step


def _steps(count: int, agent: DeviceAgent | None) -> str:
    step = _gpt2(agent)
    torch.cuda.synchronize()

    def launched() -> int:
        return 0 if agent is None else agent.launched()

    took, before, busy_ns = [], launched(), time.process_time_ns()
    for _ in range(count):
        began = time.perf_counter_ns()
        step()
        torch.cuda.synchronize()
        took.append(time.perf_counter_ns() - began)
    busy_ns = time.process_time_ns() - busy_ns
    return f"{sorted(took)[count // 2]} {busy_ns / count} {(launched() - before) / count}"


if __name__ == "__main__":
    main(*sys.argv[1:])
