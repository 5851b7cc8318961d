"""The software GPU as the command line and the daemon see it, without torch.

It imports nothing from its own package: importing `neaptide.devices.soft` starts the device.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.control.need import Need
from neaptide.core.units import parse_seconds
from neaptide.devices.board import Board, Region
from neaptide.devices.interface import DeviceAgent, DeviceSettings, setting

_MEMORY_WAIT_SECONDS = 10 * 365 * 86400  # no job dies for memory that others hold


@dataclass(frozen=True, kw_only=True)
class SoftSettings(DeviceSettings):
    """What jobs find of the software GPU."""

    sms: int | None = setting("Most SMs that a kernel of one job uses. Default: all.")
    wait: str | float | None = setting("How long a job waits for memory before it fails. Default: as long as it takes.")
    cuda_as_soft: bool | None = setting("Where there is no GPU, give the software GPU to programs that ask for cuda.")

    def __post_init__(self) -> None:
        if self.sms is not None and self.sms < 1:
            raise ValueError(f"sms must be at least 1, not {self.sms}")
        if self.wait is not None and not 0 <= self._wait_seconds < 2**33:
            raise ValueError(f"wait: {self.wait} is not a time; write it like 50ms or 1.5s")

    @property
    def _wait_seconds(self) -> float:
        assert self.wait is not None
        try:
            return parse_seconds(self.wait) if isinstance(self.wait, str) else float(self.wait)
        except ValueError as error:
            raise ValueError(f"wait: {error}") from None

    def environment(self) -> dict[str, str]:
        """The variables that devices/soft/settings.py and SoftKind.attach read."""
        variables = {"NEAPTIDE_CUDA_AS_SOFT": "0" if self.cuda_as_soft is False else "1"}
        if self.sms is not None:
            variables["NEAPTIDE_SOFT_SMS"] = str(self.sms)
        if self.wait is not None:
            variables["NEAPTIDE_SOFT_WAIT"] = str(self._wait_seconds)
        return variables


@dataclass(frozen=True, kw_only=True)
class SoftBoardSettings(DeviceSettings):
    """What a new board has."""

    sms: int | None = setting("How many cores the software GPU has. Default: all.")

    def __post_init__(self) -> None:
        if self.sms is not None and not 1 <= self.sms <= 1024:
            raise ValueError(f"sms must be between 1 and 1024, not {self.sms}")


class SoftKind:
    """A GPU made of the machine's cores and memory."""

    name = "soft"
    chunk_bytes = 2 << 20
    supplies = frozenset(Need) - {Need.PAGING}
    settings_type: type[DeviceSettings] = SoftSettings
    board_settings_type: type[DeviceSettings] = SoftBoardSettings

    def default_budget_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - all have the machine's memory
        """Half of the machine's memory."""
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return memory_bytes // 2 // self.chunk_bytes * self.chunk_bytes

    def environment(self, settings: SoftSettings, board: Path) -> dict[str, str]:
        return {"NEAPTIDE_SOFT_BOARD": str(board), **settings.environment()}

    def create_board(self, path: Path, budget_bytes: int, settings: SoftBoardSettings) -> Board:
        """With as many SMs as there are cores, unless the settings say otherwise."""
        return Board.create(path, budget_bytes, Region("soft", settings.sms or len(os.sched_getaffinity(0))))

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:  # noqa: ARG002 - a board is a device
        """Start the device on NEAPTIDE_SOFT_BOARD, or else on this board. NEAPTIDE_CUDA_AS_SOFT=1 makes it `cuda`."""
        if "neaptide.devices.soft" in sys.modules and "NEAPTIDE_SOFT_BOARD" not in os.environ:
            raise ValueError("the software GPU is in use already; call neaptide.attach before importing it")
        os.environ.setdefault("NEAPTIDE_SOFT_BOARD", str(board))
        os.environ.setdefault("NEAPTIDE_SOFT_WAIT", str(_MEMORY_WAIT_SECONDS))
        os.environ.setdefault("NEAPTIDE_JOB", job)
        if os.environ.get("NEAPTIDE_CUDA_AS_SOFT") == "1":
            from neaptide.devices.soft import as_cuda

            as_cuda.install()
        from neaptide.devices.soft.agent import SoftAgent

        return SoftAgent()


KIND = SoftKind()
