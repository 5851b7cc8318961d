"""waitress: a request arrives when the server has read it, before a thread is free for it."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.requests import Held, RequestBook, serving, web_route

_HELD = "_neaptide_request"


def watch_parser(module: ModuleType, book: RequestBook) -> None:
    """Every request that is read; its server drops it when the client is gone."""
    original = module.HTTPRequestParser.received

    @wraps(original)
    def received(read: Any, data: Any) -> Any:
        taken = original(read, data)
        if read.completed and not (read.empty or read.error or hasattr(read, _HELD)):
            setattr(read, _HELD, Held(book.arrive(web_route(read.command, read.path)), book))
        return taken

    module.HTTPRequestParser.received = received


def watch_tasks(module: ModuleType, book: RequestBook) -> None:
    """Every request when a thread works on it."""
    original = module.WSGITask.execute

    @wraps(original)
    def execute(task: Any) -> Any:
        held = getattr(task.request, _HELD, None)
        if held is None:
            return original(task)
        with serving((held.request,)):
            try:
                return original(task)
            finally:
                book.answer(held.request)

    module.WSGITask.execute = execute
