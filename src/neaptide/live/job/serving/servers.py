"""Which web frameworks a program uses: each is told of requests from when the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any

from neaptide.core.text import complain_aside
from neaptide.live.job.serving import asgi, grpc_server, pools, ray_serve, waitress, web_handlers, wsgi
from neaptide.live.job.serving.requests import RequestBook

Installer = Callable[[ModuleType, RequestBook], None]

# What is changed of each module, once it has been imported. A request that passes several of them is one request.
INSTALLERS: dict[str, Installer] = {
    "starlette.applications": asgi.watch_starlette,  # FastAPI is one
    "uvicorn.config": asgi.watch_uvicorn,
    "hypercorn.app_wrappers": asgi.watch_hypercorn,
    "flask.app": wsgi.watch_flask,
    "gunicorn.app.base": wsgi.watch_gunicorn,
    "waitress.parser": waitress.watch_parser,
    "waitress.task": waitress.watch_tasks,
    "aiohttp.web_app": web_handlers.watch_aiohttp,
    "aiohttp.web_ws": web_handlers.watch_websockets,
    "grpc": grpc_server.watch_grpc,
    "grpc.aio": grpc_server.watch_grpc_aio,
    "ray.serve._private.replica": ray_serve.watch_replica,
    "concurrent.futures.thread": pools.watch_pools,
}


def watch_servers(book: RequestBook, installers: dict[str, Installer] | None = None) -> None:
    """Have the frameworks that the program has imported, or will import, tell of their requests."""
    waiting = dict(INSTALLERS if installers is None else installers)
    for name in [name for name in waiting if name in sys.modules]:
        _install(waiting.pop(name), sys.modules[name], book)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting, book))


def _install(installer: Installer, module: ModuleType, book: RequestBook) -> None:
    try:
        installer(module, book)
    except Exception as error:  # another version of the framework: its requests count from the model's call
        complain_aside(f"requests of {module.__name__} are not seen when they arrive: {type(error).__name__}: {error}")


class _Finder:
    """Finds the frameworks with the other finders, and calls their installers when they have been executed."""

    def __init__(self, waiting: dict[str, Installer], book: RequestBook) -> None:
        self._waiting, self._book = waiting, book
        self._asking: set[tuple[int, str]] = set()  # threads that ask the other finders, which may ask all of them

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        asking = (get_ident(), name)
        if name not in self._waiting or asking in self._asking:
            return None
        self._asking.add(asking)
        try:
            found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
            specification = next((each for each in found if each is not None), None)
        finally:
            self._asking.discard(asking)
        if specification is not None and specification.loader is not None:
            self._watch(name, specification.loader)
        return specification

    def _watch(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_install(module: ModuleType) -> None:
            execute(module)
            installer = self._waiting.pop(name, None)
            if installer is not None:
                _install(installer, module, self._book)

        loader.exec_module = execute_and_install
