"""WSGI: Flask under any server, and any application under gunicorn.

A request arrives when the server calls the application; under gunicorn and werkzeug when its last bytes reached the
machine, under waitress when it was read (waitress.py). It is answered when its whole body was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.arrival_time import waited_ns
from neaptide.live.job.serving.requests import Request, RequestBook, current_requests, serving, web_route


def watch_flask(module: ModuleType, book: RequestBook) -> None:
    """Every application of Flask's class, those that exist already included."""
    original = module.Flask.__call__

    @wraps(original)
    def call(application: Any, environ: Any, start_response: Any) -> Iterable[bytes]:
        return _serve(lambda *given: original(application, *given), environ, start_response, book)

    module.Flask.__call__ = call


def watch_gunicorn(module: ModuleType, book: RequestBook) -> None:
    """The application that gunicorn serves."""
    original = module.BaseApplication.wsgi

    @wraps(original)
    def wsgi(base: Any) -> Any:
        return watched(original(base), book)

    module.BaseApplication.wsgi = wsgi


def watched(application: Any, book: RequestBook) -> Any:
    """An application that tells of its requests."""
    return lambda environ, start_response: _serve(application, environ, start_response, book)


def _waited_ns(environ: Any) -> int:
    """How long the request waited for a thread of its server, where the server shows its connection."""
    return max(waited_ns(environ.get(name)) for name in ("gunicorn.socket", "werkzeug.socket"))


def _serve(application: Any, environ: Any, start_response: Any, book: RequestBook) -> Iterable[bytes]:
    if current_requests():  # a server has seen it
        body: Iterable[bytes] = application(environ, start_response)
        return body
    route = web_route(environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", ""))
    request = book.arrive(route, waited_ns=_waited_ns(environ))
    try:
        with serving((request,)):
            return _Body(application(environ, start_response), request, book)
    except BaseException:
        book.answer(request)
        raise


class _Body:
    """The body of an answer, in which a program may still call its model; the server closes it when it was sent."""

    def __init__(self, body: Iterable[bytes], request: Request, book: RequestBook) -> None:
        self._body, self._request, self._book = body, request, book

    def __iter__(self) -> Iterator[bytes]:
        parts = iter(self._body)
        while True:
            with serving((self._request,)):
                try:
                    part = next(parts)
                except StopIteration:
                    self._book.answer(self._request)
                    return
            yield part

    def close(self) -> None:
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._book.answer(self._request)
