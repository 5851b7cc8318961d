"""What a program can do that is hard on a device that is shared; CASE names it."""

from __future__ import annotations

import ctypes
import os
import threading

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


def frees_from_another_gpu() -> str:
    share()
    block = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda:0")
    torch.zeros(1, device="cuda:1")
    torch.cuda.synchronize(0)
    torch.cuda._sleep(1 << 30)
    slept = torch.cuda.Event()
    slept.record()
    torch.cuda.set_device(1)
    del block
    torch.cuda.empty_cache()  # waits for what may use the memory
    return "the GPU is idle" if slept.query() else "the GPU is busy"


def has_a_pool_for_each_thread() -> str:
    """Each thread takes again what it freed in its pool, and never what another one freed in its own."""
    share()
    shared = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda")
    seen: list[set[int]] = [set() for _ in range(4)]
    pools = [torch.cuda.MemPool() for _ in seen]

    def work(addresses: set[int], pool: torch.cuda.MemPool) -> None:
        with torch.cuda.use_mem_pool(pool):
            for turn in range(100):
                block = torch.empty((1 + turn % 3) << 20, dtype=torch.uint8, device="cuda")
                addresses.add(block.data_ptr())
                del block

    threads = [threading.Thread(target=work, args=each) for each in zip(seen, pools, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    twice = sum(map(len, seen)) - len(set().union(*seen))
    pools.clear()
    torch.cuda.empty_cache()
    agent().check()
    return f"{twice} blocks of another's pool, {shared.numel() >> 20} of {torch.cuda.memory_allocated() >> 20} MiB"


def hides_the_gpu() -> str:
    share()
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:
        return str(error)
    return "nothing"


def brings_an_allocator() -> str:
    share()
    try:
        torch.cuda.memory.change_current_allocator(
            torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
        )
    except RuntimeError as error:
        return str(error)
    return f"nothing, and {torch.zeros(1, device='cuda').numel()} element"


def has_a_kernel_that_fails() -> str:
    share()
    blocks = [torch.zeros(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    ctypes.CDLL("libcudart.so.13").cudaMemsetAsync(ctypes.c_void_p(64), 0, ctypes.c_size_t(64), None)
    try:
        blocks[0].add_(1)
        torch.cuda.synchronize()
    except RuntimeError as error:
        said = str(error).partition("\n")[0]
        blocks.clear()
        return said
    return "nothing"


def takes_memory() -> str:
    try:
        share()
    except ValueError as error:
        return str(error)
    block = torch.ones(32 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    needed = (agent().memory().needed_bytes - agent().memory().outside_bytes) >> 20
    return f"{block.numel() >> 20} MiB, {needed} of them shared"


CASES = {
    each.__name__: each
    for each in (
        uses_cuda_first,
        forks_after_use,
        uses_two_gpus,
        frees_from_another_gpu,
        brings_an_allocator,
        has_a_kernel_that_fails,
        has_a_pool_for_each_thread,
        hides_the_gpu,
        takes_memory,
    )
}
tell(said=CASES[os.environ["CASE"]]())
