"""gRPC's servers, with threads and with asyncio: a request arrives when the server hands it to its pool or loop, before
a thread is free for it and before its message is read.

Of a call that takes a stream of messages each message is a request (streams.py).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from typing import Any

from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import Held, Request, RequestBook, serving
from neaptide.live.job.serving.streams import Messages, Taken, messages_of_loop, taken


def watch_grpc(module: Any, book: RequestBook) -> None:
    """Every server with threads that the program makes from now on."""
    _watch(module, _interceptor(module, book))


def watch_grpc_aio(module: Any, book: RequestBook) -> None:
    """Every server with asyncio that the program makes from now on."""
    _watch(module, _loop_interceptor(module, book))


def _watch(module: Any, interceptor: Any) -> None:
    make = module.server

    @wraps(make)
    def server(pool: Any = None, handlers: Any = None, interceptors: Any = None, *rest: Any, **named: Any) -> Any:
        return make(pool, handlers, (interceptor, *(interceptors or ())), *rest, **named)

    module.server = server


def _interceptor(grpc: Any, book: RequestBook) -> Any:
    class Arrivals(grpc.ServerInterceptor):  # type: ignore[misc]
        """Sees each call when it comes."""

        def intercept_service(self, continuation: Any, details: Any) -> Any:
            return _watched(continuation(details), details.method, book)

    return Arrivals()


def _loop_interceptor(aio: Any, book: RequestBook) -> Any:
    class Arrivals(aio.ServerInterceptor):  # type: ignore[misc]
        """The same."""

        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            return _watched(await continuation(details), details.method, book)

    return Arrivals()


def _watched(handler: Any, method: str, book: RequestBook) -> Any:
    """A handler that tells of its requests; None for none."""
    if handler is None:
        return None
    kind = f"{_way(handler.request_streaming)}_{_way(handler.response_streaming)}"
    behaviour = getattr(handler, kind)
    calls = _StreamCall(behaviour, method, book) if handler.request_streaming else _Call(behaviour, method, book)
    make = getattr(sys.modules["grpc"], f"{kind}_rpc_method_handler")
    return make(_alike(calls, behaviour, handler), handler.request_deserializer, handler.response_serializer)


def _way(streams: bool) -> str:
    return "stream" if streams else "unary"


def _alike(calls: _Call | _StreamCall, behaviour: Any, handler: Any) -> Callable[..., Any]:
    """The method that is made as the behaviour is: gRPC looks whether it is a coroutine or a generator."""
    if inspect.isasyncgenfunction(behaviour):
        return calls.answers_in_loop
    if inspect.iscoroutinefunction(behaviour):
        return calls.answer_in_loop
    return calls.answers if handler.response_streaming else calls.answer


class _Call:
    """A call with one message.

    The server drops it unused when it is one too many, its client is gone before a thread is free, or its message
    cannot be read.
    """

    def __init__(self, behaviour: Any, method: str, book: RequestBook) -> None:
        self._behaviour, self._book = behaviour, book
        self._held = Held(book.arrive(method), book)
        self._request = self._held.request

    def answer(self, message: Any, context: Any) -> Any:
        with serving((self._request,)):
            try:
                return self._behaviour(message, context)
            finally:
                self._book.answer(self._request)

    def answers(self, message: Any, context: Any) -> Iterator[Any]:
        try:
            yield from _each(lambda: self._behaviour(message, context), lambda: (self._request,))
        finally:
            self._book.answer(self._request)

    async def answer_in_loop(self, message: Any, context: Any) -> Any:
        with serving((self._request,)):
            try:
                return await self._behaviour(message, context)
            finally:
                self._book.answer(self._request, when_all_is_read)

    async def answers_in_loop(self, message: Any, context: Any) -> AsyncIterator[Any]:
        try:
            with serving((self._request,)):
                async for each in self._behaviour(message, context):
                    yield each
        finally:
            self._book.answer(self._request, when_all_is_read)


class _StreamCall:
    """A call with a stream of messages."""

    def __init__(self, behaviour: Any, method: str, book: RequestBook) -> None:
        self._behaviour, self._method, self._book = behaviour, method, book

    def answer(self, given: Any, context: Any) -> Any:
        messages = Messages(self._method, self._book)
        with serving(()):
            try:
                return self._behaviour(Taken(given, messages), context)
            finally:
                messages.over()

    def answers(self, given: Any, context: Any) -> Iterator[Any]:
        messages = Messages(self._method, self._book)
        try:
            yield from _each(lambda: self._behaviour(Taken(given, messages), context), lambda: messages.served)
        finally:
            messages.over()

    async def answer_in_loop(self, given: Any, context: Any) -> Any:
        messages = messages_of_loop(self._method, self._book)
        try:
            return await self._behaviour(taken(given, messages), context)
        finally:
            messages.over()

    async def answers_in_loop(self, given: Any, context: Any) -> AsyncIterator[Any]:
        messages = messages_of_loop(self._method, self._book)
        try:
            async for each in self._behaviour(taken(given, messages), context):
                yield each
        finally:
            messages.over()


def _each(begin: Callable[[], Any], served: Callable[[], tuple[Request, ...]]) -> Iterator[Any]:
    """The answers of a behaviour, each made while it serves what `served` says: the thread may be another each time."""
    with serving(served()):
        made = iter(begin())
    while True:
        with serving(served()):
            try:
                answer = next(made)
            except StopIteration:
                return
        yield answer
