"""gRPC's server with threads: a request arrives when the server hands it to its pool, before a thread is free for it.

Only calls that take one message are watched: a stream of messages has no moment at which it arrives.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from neaptide.live.job.serving.requests import Request, RequestBook, serving


def watch_grpc(module: Any, book: RequestBook) -> None:
    """Every server that the program makes from now on."""
    make = module.server
    interceptor = _interceptor(module, book)

    @wraps(make)
    def server(thread_pool: Any, handlers: Any = None, interceptors: Any = None, *rest: Any, **named: Any) -> Any:
        return make(thread_pool, handlers, (interceptor, *(interceptors or ())), *rest, **named)

    module.server = server


def _interceptor(grpc: Any, book: RequestBook) -> Any:
    class Arrivals(grpc.ServerInterceptor):  # type: ignore[misc]
        """Sees each call when it comes."""

        def intercept_service(self, continuation: Any, details: Any) -> Any:
            handler = continuation(details)
            if handler is None or handler.request_streaming:
                return handler
            watched = _Watched(handler.unary_stream or handler.unary_unary, book.arrive(details.method), book)
            if handler.response_streaming:
                return grpc.unary_stream_rpc_method_handler(
                    watched.stream, handler.request_deserializer, handler.response_serializer
                )
            return grpc.unary_unary_rpc_method_handler(
                watched.answer, handler.request_deserializer, handler.response_serializer
            )

    return Arrivals()


class _Watched:
    """A handler of one request.

    The server drops it unused when the request is one too many, its client is gone before a thread is free, or it
    cannot be read. Then the request is over, too.
    """

    def __init__(self, behaviour: Any, request: Request, book: RequestBook) -> None:
        self._behaviour, self._request, self._book = behaviour, request, book

    def __del__(self) -> None:
        self._book.answer(self._request)

    def answer(self, message: Any, context: Any) -> Any:
        with serving((self._request,)):
            try:
                return self._behaviour(message, context)
            finally:
                self._book.answer(self._request)

    def stream(self, message: Any, context: Any) -> Any:
        with serving((self._request,)):
            answers = iter(self._behaviour(message, context))
        try:
            while True:
                with serving((self._request,)):
                    try:
                        answer = next(answers)
                    except StopIteration:
                        return
                yield answer
        finally:
            self._book.answer(self._request)
