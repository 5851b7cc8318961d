"""The fake device as the command line and the daemon see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neaptide.devices import Board, DeviceAgent, DeviceSettings, Need, Region, setting

_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class FakeSettings(DeviceSettings):
    """What jobs find of the device: nothing can be chosen."""


@dataclass(frozen=True, kw_only=True)
class FakeBoardSettings(DeviceSettings):
    """What a new board has."""

    sms: int | None = setting("How many SMs the device has. Default: 2.")


class FakeKind:
    """A device whose kernels only take time."""

    name = "fake"
    chunk_bytes = 2 << 20
    supplies = frozenset(Need) - {Need.PAGING}
    settings_type: type[DeviceSettings] = FakeSettings
    board_settings_type: type[DeviceSettings] = FakeBoardSettings

    def default_budget_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - all have the same memory
        """The device's memory."""
        return _MEMORY_BYTES

    def environment(self, settings: FakeSettings, board: Path) -> dict[str, str]:  # noqa: ARG002
        """Nothing: `attach` is told the board."""
        return {}

    def create_board(self, path: Path, budget_bytes: int, settings: FakeBoardSettings) -> Board:
        """Open the board at this path, or make it."""
        return Board.create(path, budget_bytes, Region(None, settings.sms or 2))

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:  # noqa: ARG002 - a board is a device
        """Join the board, in real time."""
        from .agent import FakeAgent

        return FakeAgent(Board.open(board), job)


KIND = FakeKind()
