"""Shares the hollow GPU in this process, on a board of its own and without a daemon; the other programs here use it.

`SHARED=0` leaves the GPU to torch's own allocator, so that the same program can be run both ways.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from neaptide.devices import DeviceAgent, find_kind

KIND = find_kind("cuda")
_AGENTS: list[DeviceAgent] = []


def share(job: str = "job", budget_bytes: int = 1 << 30) -> None:
    """Have the process join the board of BOARD, made first if there is none, when it first uses CUDA."""
    if os.environ.get("SHARED") == "0":
        return
    board = Path(os.environ["BOARD"])
    if not board.exists():
        KIND.create_board(board, budget_bytes, KIND.board_settings_type()).close()
    os.environ["NEAPTIDE_CUDA_WAIT"] = os.environ.get("WAIT", "60")

    def first_use() -> None:
        _AGENTS.append(KIND.attach(board, job))
        _AGENTS[0].release_launches()

    import torch  # noqa: F401 - must be there before

    KIND.prepare(first_use)


def agent() -> DeviceAgent:
    """The device in this process, once it was used."""
    return _AGENTS[0]


def native() -> Any:
    """The C++ part."""
    from neaptide.devices.cuda.extension import native

    return native


def tell(**facts: Any) -> None:
    """Print facts for the test to read."""
    print(json.dumps(facts), flush=True)
