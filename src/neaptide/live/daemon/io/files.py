"""The daemon's files in the runtime folder: the board, the lock and the socket.

Anybody of the same user may empty the folder. The daemon looks once a second whether its files are still where jobs and
commands look for them, and puts them back; when another daemon has the folder by then, it ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from neaptide.devices.board import Board
from neaptide.live.daemon.io.listening_socket import ListeningSocket
from neaptide.live.protocol.lock import DaemonLock
from neaptide.live.protocol.paths import RuntimePaths, prepare

LOOK_SECONDS = 1.0


def open_board(path: Path, make: Callable[[], Board]) -> Board:
    """The board that jobs of an earlier daemon still use, or a new one. The daemon's lock must be held.

    A board that nobody uses is replaced, also one that is damaged or of another version.
    """
    if Board.in_use(path):
        return Board.open(path)
    old = path.with_name(f"{path.name}.old")
    with suppress(FileNotFoundError):
        path.rename(old)
        if Board.in_use(old):  # a job joined it just now; one that comes later sees that it is not at its path
            old.rename(path)
            return Board.open(path)
    old.unlink(missing_ok=True)
    return make()


class RuntimeFiles:
    """Keeps the files of one daemon in place."""

    def __init__(self, paths: RuntimePaths, lock: DaemonLock, board: Board, listening: ListeningSocket) -> None:
        self._paths = paths
        self._lock = lock
        self._board = board
        self._board_bytes = os.fstat(board.descriptor).st_size
        self._listening = listening

    async def keep(self, complain: Callable[[str], None]) -> None:
        """Look once a second; returns when another daemon has the folder. A problem that lasts is said once."""
        told = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if not await self._look(complain):
                    complain(f"another daemon runs in {self._paths.folder}; this one ends")
                    return
                told = ""
            except (OSError, ValueError) as error:
                problem = f"the daemon's files in {self._paths.folder} cannot be put back: {error}"
                if problem != told:
                    told = problem
                    complain(problem)

    async def _look(self, complain: Callable[[str], None]) -> bool:
        """Put back what is gone; False when another daemon has the folder."""
        self._lengthen_board()
        if self._lock.is_in_place and self._board.is_at_its_path and self._listening.is_at_its_path:
            return True
        prepare(self._paths)
        if not self._lock.put_back():
            return False
        if not self._board.is_at_its_path:
            self._link_board()
        if not self._listening.is_at_its_path:
            await self._listening.bind()
        complain(f"files were removed from {self._paths.folder}; the daemon has put its own back")
        return True

    def _lengthen_board(self) -> None:
        """A file that was cut within its last page raises no SIGBUS: no job makes it whole, and new ones refuse it."""
        if os.fstat(self._board.descriptor).st_size < self._board_bytes:
            os.truncate(self._board.descriptor, self._board_bytes)

    def _link_board(self) -> None:
        """A file without a name cannot get one again, so the path becomes a link to it as this process has it open."""
        link = self._paths.board.with_name(f"{self._paths.board.name}.link")
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/{os.getpid()}/fd/{self._board.descriptor}")
        link.replace(self._paths.board)
