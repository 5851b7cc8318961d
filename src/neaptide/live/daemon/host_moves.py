"""Moves jobs' bytes to host memory and back, through requests on the board that the processes answer themselves.

The processes say nothing when they have done it, so the board is looked at as long as one has not settled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from neaptide.core.control import events as ev
from neaptide.devices.board import Board, BoardError, Request, SlotState
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason

# A process that could not make room in time has dropped the request; it is asked again after this.
_ASK_AGAIN_NS = 200_000_000
_GONE = (SlotState.SUSPENDED, SlotState.EVICTED)


class HostMoves:
    """Who is on the device and who is in host memory."""

    def __init__(self, board: Board, post: Callable[[ev.Event], None], now_ns: Callable[[], int]) -> None:
        self._board = board
        self._post = post
        self._now_ns = now_ns
        self._settling: dict[str, AttachedJob] = {}

    @property
    def settling(self) -> list[AttachedJob]:
        """Who was asked to go or come and may answer yet."""
        return [resident for resident in self._settling.values() if not resident.unresponsive]

    def awaits(self, resident: AttachedJob) -> bool:
        """Whether it was asked to go or come and has not answered."""
        return resident.name in self._settling

    def leave(self, resident: AttachedJob, why: EvictionReason) -> None:
        """Have its bytes moved to host memory. If they are, the newest reason is the one that counts."""
        was_here, resident.away = resident.away is None, why
        if was_here:
            self._ask(resident)

    def come(self, resident: AttachedJob, why: EvictionReason) -> None:
        """Have its bytes moved back, if this is why it is away."""
        if resident.away is why:
            resident.away, resident.away_before = None, why
            self._ask(resident)

    def welcome(self, resident: AttachedJob) -> None:
        """It is here: if a daemon before this one had sent it away, it comes back."""
        seen = self._board.progress(resident.slot)
        if seen.request is not Request.NONE or seen.state in _GONE:
            resident.away_before = EvictionReason.QUEUE
            self._ask(resident)

    def forget(self, resident: AttachedJob) -> None:
        self._settling.pop(resident.name, None)

    def look(self) -> None:
        """See who has answered, and report it."""
        for resident in list(self._settling.values()):
            seen = self._board.progress(resident.slot)
            gone = seen.state in _GONE
            if seen.request is not Request.NONE:
                continue
            if gone is not (resident.away is not None):
                if self._now_ns() - resident.asked_ns > _ASK_AGAIN_NS:
                    self._ask(resident)
                continue
            del self._settling[resident.name]
            if gone and resident.away is EvictionReason.POLICY:
                self._post(ev.JobSuspended(self._now_ns(), resident.name))
            elif not gone and resident.away_before is not EvictionReason.QUEUE:
                self._post(ev.JobResumed(self._now_ns(), resident.name))

    def _ask(self, resident: AttachedJob) -> None:
        away = resident.away is not None
        if (resident.away or resident.away_before) is EvictionReason.POLICY:
            request = Request.SUSPEND if away else Request.RESUME
        else:
            request = Request.EVICT if away else Request.RESTORE
        self._settling[resident.name] = resident
        resident.asked_ns = self._now_ns()
        with suppress(BoardError):  # its process has just died
            self._board.set_request(resident.slot, request)
