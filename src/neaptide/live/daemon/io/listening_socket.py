"""The daemon's socket in the runtime folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class ListeningSocket:
    """Listens at a path; `bind` can be called again when the path was removed."""

    def __init__(self, path: Path, new_connection: Callable[[], asyncio.Protocol], backlog: int = 100) -> None:
        self._path = path
        self._new_connection = new_connection
        self._backlog = backlog
        self._listening: asyncio.Server | None = None
        self._bound: os.stat_result | None = None

    @property
    def is_at_its_path(self) -> bool:
        """Whether those who connect to the path come to this socket. Changes nothing."""
        with suppress(OSError):
            return self._bound is not None and os.path.samestat(self._bound, self._path.stat())
        return False

    async def bind(self) -> None:
        """Listen at the path, in place of whatever is there."""
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)  # no other user may connect, from the first moment on
        try:
            make = asyncio.get_running_loop().create_unix_server
            listening = await make(self._new_connection, str(self._path), backlog=self._backlog)
            self._bound = self._path.stat()
        finally:
            os.umask(before)
        if self._listening is not None:
            self._listening.close()
        self._listening = listening

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self.is_at_its_path:
            self._path.unlink(missing_ok=True)
