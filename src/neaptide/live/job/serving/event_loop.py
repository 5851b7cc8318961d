"""What a server's event loop has not read yet: an application that computes in the loop keeps it from reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# A request on a new connection is read in so many turns of asyncio's loop, one on an open connection in half of them:
# the connection is accepted, made, watched and found to be readable, and the application's task begins.
_TURNS = 8


class _WhenDropped:
    """Makes a call when nobody holds it any more: the loop has had its turns, or has ended before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call()


def when_all_is_read(call: Callable[[], None]) -> None:
    """Make the call when the loop of this thread has read what is there now; at once if no loop of asyncio runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        call()
        return

    def turn(left: int, held: _WhenDropped) -> None:
        if left:
            loop.call_soon(turn, left - 1, held)

    turn(_TURNS, _WhenDropped(call))
