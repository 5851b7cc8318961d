"""The board of a device without torch: what a daemon needs to look at it and to control the processes on it.

`port` is a launch layer that a script drives instead of a program; the fake device uses it. Every device and everything
in `live` imports this room.
"""

from __future__ import annotations

from neaptide.devices.board.board import Board, BoardError, Region
from neaptide.devices.board.figures import (
    PERMIT_ALL,
    BoardFigures,
    IterationFacts,
    Progress,
    Request,
    SlotFigures,
    SlotState,
)

__all__ = [
    "PERMIT_ALL",
    "Board",
    "BoardError",
    "BoardFigures",
    "IterationFacts",
    "Progress",
    "Region",
    "Request",
    "SlotFigures",
    "SlotState",
]
