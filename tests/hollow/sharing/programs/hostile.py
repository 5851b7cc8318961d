"""What a program can do that is hard on a device that is shared; CASE names it."""

from __future__ import annotations

import os

import torch
from sharing import agent, share, tell


def uses_cuda_first() -> str:
    torch.zeros(1, device="cuda")
    try:
        share()
    except ValueError as error:
        return str(error)
    return ""


def forks_after_use() -> str:
    share()
    tensor = torch.zeros(1, device="cuda")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.zeros(1, device="cuda")
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        os.write(writing, said.partition("\n")[0].encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 4096).decode()
    os.waitpid(child, 0)
    tensor += 1  # the parent goes on
    torch.cuda.synchronize()
    agent().check()
    return said


def uses_two_gpus() -> str:
    share()
    ours, other = torch.zeros(1 << 20, device="cuda:0"), torch.zeros(3 << 20, device="cuda:1")
    sizes = [torch.cuda.memory_allocated(index) >> 20 for index in range(2)]
    other.copy_(ours.repeat(3))
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    needed = agent().memory().needed_bytes >> 20
    del ours, other
    return f"{sizes[0]} and {sizes[1]} MiB, {'only the first is shared' if needed < 1024 else needed}"


def takes_memory() -> str:
    try:
        share()
    except ValueError as error:
        return str(error)
    block = torch.ones(32 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    needed = (agent().memory().needed_bytes - agent().memory().outside_bytes) >> 20
    return f"{block.numel() >> 20} MiB, {needed} of them shared"


CASES = {each.__name__: each for each in (uses_cuda_first, forks_after_use, uses_two_gpus, takes_memory)}
tell(said=CASES[os.environ["CASE"]]())
