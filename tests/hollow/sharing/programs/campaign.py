"""Kills KILLS processes at random points while JOBS take turns with memory: jobs, or with VICTIM=keeper the keeper.

Torch is imported once; each job is a fork that uses CUDA for the first time. A job that is not killed must end well.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
from sharing import KIND, agent, native, share, tell

from neaptide.devices import Board
from neaptide.devices.cuda.page_table import PageTable

native()  # builds and loads it before the forks
mib, victim = int(os.environ["TIDE_MIB"]), os.environ["VICTIM"]
kills, jobs = int(os.environ["KILLS"]), int(os.environ["JOBS"])
chance = random.Random(int(os.environ.get("SEED", "1")))


def tide(job: str, end: int) -> None:
    """Until the pipe ends: another amount of memory each turn, written and read."""
    share(job=job)
    sizes, turn = random.Random(job), 0
    os.set_blocking(end, False)
    while not _ended(end):
        turn += 1
        # One block at a time: without a daemon nobody evicts jobs that wait for each other.
        block = torch.full((sizes.randint(1, mib) << 20,), turn % 251, dtype=torch.uint8, device="cuda")
        assert int(block[0].item()) == int(block[-1].item()) == turn % 251
        del block
        agent().check()
    torch.cuda.synchronize()


def _ended(end: int) -> bool:
    try:
        return not os.read(end, 1)
    except BlockingIOError:
        return False


def start(job: str, read_end: int, write_end: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(write_end)
        tide(job, read_end)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        if code == 0:
            native().stop()
        os._exit(code)


board = Board.open(Path(os.environ["BOARD"]))
table, ends = PageTable(board), os.pipe()
names = iter(range(10**6))
running = [start(f"job-{next(names)}", *ends) for _ in range(jobs)]
keepers: set[int] = set()
while kills:
    time.sleep(chance.uniform(0, 0.4))
    if victim == "job":
        place = chance.randrange(jobs)
        os.kill(running[place], signal.SIGKILL)
        assert os.waitpid(running[place], 0)[1] == signal.SIGKILL, "a job ended by itself"
        running[place] = start(f"job-{next(names)}", *ends)
    else:
        keeper = table.keeper_pid
        if keeper == 0 or keeper in keepers:  # the next one has not begun
            continue
        os.kill(keeper, signal.SIGKILL)
        keepers.add(keeper)
    kills -= 1
time.sleep(0.5)
os.close(ends[1])
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in running]
board.reap()
deadline = time.monotonic() + 60
while board.snapshot().used_bytes and time.monotonic() < deadline:  # a killed job's context is being torn down
    time.sleep(0.02)
    board.reap()
tell(codes=codes, leased_bytes=board.snapshot().used_bytes, kind=KIND.name)
sys.exit(0)
