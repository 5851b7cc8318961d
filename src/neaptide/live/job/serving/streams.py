"""Messages over one connection, as of a websocket or a gRPC stream: each is a request of its own.

Such a request arrives when the program takes the message, and is answered when the program asks for the next one or
has ended. Messages that the program has not taken yet are not seen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import Later, Request, RequestBook, now_serving


class Messages:
    """The messages that a program takes from one connection, one after the other."""

    def __init__(self, route: str, book: RequestBook, later: Later | None = None) -> None:
        self.served: tuple[Request, ...] = ()
        """The one that the program works on."""
        self._route, self._book, self._later = route, book, later

    def taken(self) -> None:
        """The program has taken a message; calls of its model in this context serve it."""
        self.served = (self._book.arrive(self._route),)
        now_serving(self.served)

    def over(self) -> None:
        """The program asks for the next message, or has ended."""
        for request in self.served:
            self._book.answer(request, self._later)
        self.served = ()


class Taken:
    """An iterator over messages that tells when the program takes them."""

    def __init__(self, given: Iterator[Any], messages: Messages) -> None:
        self._given, self._messages = given, messages

    def __iter__(self) -> Taken:
        return self

    def __next__(self) -> Any:
        self._messages.over()
        message = next(self._given)
        self._messages.taken()
        return message

    next = __next__  # gRPC's iterator has it


async def taken(given: AsyncIterator[Any], messages: Messages) -> AsyncIterator[Any]:
    """The same where the messages come over an event loop."""
    async for message in given:
        messages.taken()
        yield message
        messages.over()


def messages_of_loop(route: str, book: RequestBook) -> Messages:
    """Those that come over an event loop, which reads nothing while the program works."""
    return Messages(route, book, when_all_is_read)
