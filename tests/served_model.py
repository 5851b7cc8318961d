"""A model in a server of a real framework: its calls are noted as a client notes them, and what the daemon is told."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from daemons import until
from neaptide.live.job.serving.requests import RequestBook, current_requests
from neaptide.live.job.serving.servers import watch_servers
from neaptide.live.protocol import messages as say

CHANGED = (
    ("starlette.applications", ("Starlette",), "__call__"),
    ("uvicorn.config", ("Config",), "load"),
    ("hypercorn.app_wrappers", ("ASGIWrapper",), "__init__"),
    ("hypercorn.app_wrappers", ("WSGIWrapper",), "__init__"),
    ("flask.app", ("Flask",), "__call__"),
    ("gunicorn.app.base", ("BaseApplication",), "wsgi"),
    ("waitress.parser", ("HTTPRequestParser",), "received"),
    ("waitress.task", ("WSGITask",), "execute"),
    ("aiohttp.web_app", ("Application",), "_handle"),
    ("aiohttp.web_ws", ("WebSocketResponse",), "receive"),
    ("grpc", (), "server"),
    ("grpc.aio", (), "server"),
    ("ray.serve._private.replica", ("Replica",), "_wrap_request"),
    ("concurrent.futures.thread", ("ThreadPoolExecutor",), "submit"),
)
"""What is changed of each framework: the module, the class in it, and its attribute."""


class Model:
    """Stands for a model: its call is noted as the client notes it."""

    def __init__(self) -> None:
        self.book = RequestBook()
        self.sent: list[say.Message] = []
        self.book.connect(self.sent.append)

    def __call__(self) -> str:
        assert len(current_requests()) == 1
        self.book.call(joins=False)
        return "answer"

    def count(self, kind: type[say.Message]) -> int:
        return sum(isinstance(message, kind) for message in self.sent)

    def wait_until_all_is_over(self) -> None:
        """A client may have its answer before its server has come to the end of the request."""
        until(lambda: self.count(say.RequestAnswered) == self.count(say.RequestCalled), "all to be over")

    def check(self, requests: int) -> None:
        """All requests were called and answered once, and all after the first were known at their arrival."""
        self.wait_until_all_is_over()
        assert self.count(say.RequestArrived) == 0
        assert self.count(say.RequestAnswered) == requests
        assert self.count(say.RequestExpected) == requests - 1
        for number in range(2, requests + 1):
            course = [type(message) for message in self.sent if getattr(message, "request", 0) == number]
            assert course == [say.RequestExpected, say.RequestCalled, say.RequestAnswered]


@contextmanager
def watched_model() -> Iterator[Model]:
    """A model that the frameworks know; afterwards they are as before."""
    made, before, finders = Model(), {}, list(sys.meta_path)
    for module, place, attribute in CHANGED:
        with suppress(ModuleNotFoundError):
            owner: Any = importlib.import_module(module)
            for part in place:
                owner = getattr(owner, part)
            before[owner, attribute] = owner.__dict__[attribute]
    watch_servers(made.book)
    try:
        yield made
    finally:
        sys.meta_path[:] = finders
        for (owner, attribute), value in before.items():
            setattr(owner, attribute, value)


class Served:
    """An application under uvicorn, on a thread; entering it returns the port."""

    def __init__(self, application: Any, **settings: Any) -> None:
        uvicorn = importlib.import_module("uvicorn")
        self._server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", **settings))
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> int:
        self._thread.start()
        until(lambda: self._server.started, "uvicorn to listen")
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
