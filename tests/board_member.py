"""A slot on the board for a process without torch: stands in for a job where no device is needed."""

from __future__ import annotations

from neaptide.devices.board import figures as fig
from neaptide.devices.board.board import Board, BoardError, last_error
from neaptide.devices.board.library import load


class Member:
    """The slot of this process; devices/native/member.h says what each call does."""

    def __init__(self, board: Board, job: str) -> None:
        self._library = load()
        self._handle = self._library.neaptide_member_join(board.handle, job.encode())
        if not self._handle:
            raise BoardError(last_error())
        self.slot = int(self._library.neaptide_member_slot(self._handle))

    def leave(self) -> None:
        if self._handle:
            self._library.neaptide_member_leave(self._handle)
            self._handle = None

    def take(self, lease_bytes: int, seconds: float = 0.0) -> bool:
        """Whether the lease was granted within that time."""
        return int(self._library.neaptide_member_take(self._handle, lease_bytes, seconds)) == 0

    def give(self, lease_bytes: int) -> None:
        if self._library.neaptide_member_give(self._handle, lease_bytes) != 0:
            raise BoardError(last_error())

    @property
    def held_bytes(self) -> int:
        """What this process knows that it holds, whatever the board says."""
        return int(self._library.neaptide_member_held(self._handle))

    def mend(self) -> None:
        """Write the words of the slot again where they were damaged."""
        self._library.neaptide_member_mend(self._handle)

    def begin_iteration(self) -> int:
        """Its number, 0 for the first."""
        return int(self._library.neaptide_member_begin_iteration(self._handle))

    def end_iteration(self) -> None:
        self._library.neaptide_member_end_iteration(self._handle)

    def wait_permit(self, iteration: int, seconds: float) -> bool:
        """Whether the iteration was permitted within that time."""
        return int(self._library.neaptide_member_wait_permit(self._handle, iteration, seconds)) == 1

    def set_state(self, state: fig.SlotState) -> None:
        self._library.neaptide_member_set_state(self._handle, state)

    def count(self, launched: int, done: int) -> None:
        """Kernels launched and done since the last call."""
        self._library.neaptide_member_count(self._handle, launched, done)

    @property
    def request(self) -> fig.Request:
        return fig.Request(self._library.neaptide_member_request(self._handle))

    def finish_request(self, request: fig.Request) -> bool:
        """False when there is a newer one."""
        return bool(self._library.neaptide_member_finish_request(self._handle, request))
