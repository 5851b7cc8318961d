"""The fake device as the command line and the daemon see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from neaptide.devices import Board, DeviceAgent, DeviceSettings, Need, Region, setting
from neaptide.devices.board.figures import SMALL_CHUNK_BYTES

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
    supplies = frozenset(Need)
    settings_type: type[DeviceSettings] = FakeSettings
    board_settings_type: type[DeviceSettings] = FakeBoardSettings

    def chunk_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - the same for all
        """The smallest there are."""
        return SMALL_CHUNK_BYTES

    def description(self, index: int = 0) -> str:  # noqa: ARG002 - all are alike
        return "scripted device"

    def default_budget_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - all have the same memory
        """The device's memory."""
        return _MEMORY_BYTES

    def used_bytes(self, index: int = 0) -> int | None:  # noqa: ARG002
        """Only the board counts."""
        return None

    def most_bytes(self, board: Board) -> int | None:  # noqa: ARG002
        """Nobody else uses it."""
        return None

    def environment(
        self,
        settings: FakeSettings,  # noqa: ARG002
        board: Path,  # noqa: ARG002
        *,
        best_effort: bool = True,  # noqa: ARG002
    ) -> dict[str, str]:
        """Nothing: `attach` is told the board."""
        return {}

    def services(self, board: Path, settings: FakeBoardSettings) -> AbstractContextManager[None]:  # noqa: ARG002
        """None are needed."""
        return nullcontext()

    def create_board(self, path: Path, budget_bytes: int, settings: FakeBoardSettings) -> Board:
        """A board with two SMs, unless the settings say otherwise."""
        return Board.create(path, budget_bytes, Region(None, settings.sms or 2))

    def prepare(self, first_use: Callable[[], None] | None = None) -> str:
        """Programs call the device themselves, not through torch: they may use it from now on."""
        if first_use is not None:
            first_use()
        return "fake"

    def unprepare(self) -> None:
        """Nothing was changed."""

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:  # noqa: ARG002 - a board is a device
        """Join the board, in real time."""
        from neaptide.devices.board.board import join

        from .agent import FakeAgent

        return join(lambda: FakeAgent(Board.open(board), job))


KIND = FakeKind()
