"""ASGI: FastAPI and Starlette under any server, and any application under uvicorn or hypercorn.

A request arrives when the server calls the application; under uvicorn when its last bytes reached the machine, because
an application that computes in the server's loop keeps the server from reading requests meanwhile. It is answered with
the last part of its body: background work that the application does afterwards is not part of it. Of a websocket each
message is a request (streams.py).
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.arrival_time import transport_waited_ns
from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import RequestBook, current_requests, serving, web_route
from neaptide.live.job.serving.streams import messages_of_loop
from neaptide.live.job.serving.wsgi import watched as watched_wsgi

_SEEN = "neaptide.seen"  # in the scope: a server or an outer application has seen the request


def watch_starlette(module: ModuleType, book: RequestBook) -> None:
    """Every application of Starlette's class, those that exist already included."""
    module.Starlette.__call__ = watched_method(module.Starlette.__call__, book)


def watch_uvicorn(module: ModuleType, book: RequestBook) -> None:
    """The application that uvicorn serves, whatever it is made with."""
    load = module.Config.load

    @wraps(load)
    def load_and_watch(config: Any) -> None:
        load(config)
        config.loaded_app = watched(config.loaded_app, book)

    module.Config.load = load_and_watch


def watch_hypercorn(module: ModuleType, book: RequestBook) -> None:
    """The application that hypercorn serves, of either kind."""
    start, start_wsgi = module.ASGIWrapper.__init__, module.WSGIWrapper.__init__

    @wraps(start)
    def start_and_watch(wrapper: Any, app: Any) -> None:
        start(wrapper, watched(app, book))

    @wraps(start_wsgi)
    def start_wsgi_and_watch(wrapper: Any, app: Any, *rest: Any, **named: Any) -> None:
        start_wsgi(wrapper, watched_wsgi(app, book), *rest, **named)

    module.ASGIWrapper.__init__, module.WSGIWrapper.__init__ = start_and_watch, start_wsgi_and_watch


def watched(application: Any, book: RequestBook) -> Any:
    """An application that tells of its requests."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        await _serve(application, scope, receive, send, book)

    return call


def watched_method(original: Any, book: RequestBook) -> Any:
    """The same for a class of applications."""

    @wraps(original)
    async def call(application: Any, scope: Any, receive: Any, send: Any) -> None:
        async def inner(scope: Any, receive: Any, send: Any) -> None:
            await original(application, scope, receive, send)

        await _serve(inner, scope, receive, send, book)

    return call


def _transport(receive: Any) -> Any:
    """The connection of the request, where the server is uvicorn."""
    return getattr(getattr(receive, "__self__", None), "transport", None)


async def _serve(application: Any, scope: Any, receive: Any, send: Any, book: RequestBook) -> None:
    if scope["type"] not in ("http", "websocket") or scope.get(_SEEN) or current_requests():
        await application(scope, receive, send)
        return
    scope[_SEEN] = True
    serve = _serve_request if scope["type"] == "http" else _serve_messages
    await serve(application, scope, receive, send, book)


async def _serve_request(application: Any, scope: Any, receive: Any, send: Any, book: RequestBook) -> None:
    route = web_route(scope.get("method", ""), scope.get("path", ""))
    request = book.arrive(route, waited_ns=transport_waited_ns(_transport(receive)))

    async def send_and_see(message: Any) -> None:
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            book.answer(request, when_all_is_read)

    with serving((request,)):
        try:
            await application(scope, receive, send_and_see)
        finally:
            book.answer(request, when_all_is_read)


async def _serve_messages(application: Any, scope: Any, receive: Any, send: Any, book: RequestBook) -> None:
    messages = messages_of_loop(web_route("websocket", scope.get("path", "")), book)

    async def receive_and_see() -> Any:
        messages.over()
        message = await receive()
        if message["type"] == "websocket.receive":
            messages.taken()
        return message

    try:
        await application(scope, receive_and_see, send)
    finally:
        messages.over()
