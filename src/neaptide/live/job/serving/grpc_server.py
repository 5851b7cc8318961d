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
            request = book.arrive(details.method)
            if handler.response_streaming:
                serve = _streaming(handler.unary_stream, request, book)
                return grpc.unary_stream_rpc_method_handler(
                    serve, handler.request_deserializer, handler.response_serializer
                )
            return grpc.unary_unary_rpc_method_handler(
                _single(handler.unary_unary, request, book), handler.request_deserializer, handler.response_serializer
            )

    return Arrivals()


def _single(behaviour: Any, request: Request, book: RequestBook) -> Any:
    def serve(message: Any, context: Any) -> Any:
        with serving((request,)):
            try:
                return behaviour(message, context)
            finally:
                book.answer(request)

    return serve


def _streaming(behaviour: Any, request: Request, book: RequestBook) -> Any:
    def serve(message: Any, context: Any) -> Any:
        with serving((request,)):
            answers = iter(behaviour(message, context))
        try:
            while True:
                with serving((request,)):
                    try:
                        answer = next(answers)
                    except StopIteration:
                        return
                yield answer
        finally:
            book.answer(request)

    return serve
