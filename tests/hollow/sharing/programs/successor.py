"""Kills a keeper that has made pages and lets another follow while the dead one waits to be collected by its parent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sharing import tell

from neaptide.devices import Board
from neaptide.devices.cuda import nvml
from neaptide.devices.cuda.driver import PageMaker, device_of
from neaptide.devices.cuda.page_table import PageTable

PAGES = 8


def used_bytes() -> int:
    """What the device has in use, by its own count."""
    gpu = nvml.all_gpus()[0]
    return gpu.total_bytes - gpu.free_bytes


made, says = os.pipe()
keeper = os.fork()
board = Board.open(Path(os.environ["BOARD"]))
table = PageTable(board)
if keeper == 0:
    device = device_of(nvml.all_gpus()[0].uuid)
    assert device is not None
    maker = PageMaker(device, board.chunk_bytes)
    assert table.begin()
    for _ in range(PAGES):
        page = table.announce()
        assert page is not None
        assert maker.make() is not None
        table.settle(page, there=True)
    os.write(says, b".")
    time.sleep(3600)
os.close(says)
assert os.read(made, 1), "the keeper died by itself"
os.kill(keeper, signal.SIGKILL)
os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)  # it has ended and is not collected
before = used_bytes()
while not table.begin():
    time.sleep(0.005)
tell(before=before, after=used_bytes(), followed=table.keeper_pid == os.getpid())
