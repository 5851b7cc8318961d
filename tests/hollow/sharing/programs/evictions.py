"""Moves the process's memory to the host and back many times, with another stream and another thread at work."""

from __future__ import annotations

import os
import threading

import torch
from sharing import agent, native, share, tell

share()
generator = torch.Generator().manual_seed(7)
sizes = (1, 4096, 3 << 20, (7 << 20) + 512, 64 << 10)
patterns = [torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator) for size in sizes]
blocks = [pattern.to("cuda") for pattern in patterns]
addresses = [block.data_ptr() for block in blocks]
side = torch.cuda.Stream()
ended = threading.Event()
seen = [0, 0]  # of the other thread: turns, and wrong ones


def work_beside() -> None:
    """Copies and reads on a stream of its own; what it launches while the memory is away waits."""
    with torch.cuda.stream(torch.cuda.Stream()):
        block = patterns[2].clone().to("cuda")
        expected = block.cpu()
        while not ended.is_set():
            seen[0] += 1
            seen[1] += not torch.equal(block.clone().cpu(), expected)


beside = threading.Thread(target=work_beside)
beside.start()
wrong = moved = 0
for turn in range(int(os.environ["TURNS"])):
    with torch.cuda.stream(side):
        copy = blocks[turn % len(blocks)].clone()
    moved += native().evict(30.0)
    assert native().owned_bytes() == 0
    assert native().restore(30.0)
    del copy
    wrong += sum(not torch.equal(block.cpu(), pattern) for block, pattern in zip(blocks, patterns, strict=True))
    place = turn % len(blocks)
    patterns[place] = patterns[place].roll(1)
    blocks[place].copy_(patterns[place])
ended.set()
beside.join()
agent().check()
tell(wrong=wrong + seen[1], moved=moved, beside=seen[0], same=addresses == [block.data_ptr() for block in blocks])
