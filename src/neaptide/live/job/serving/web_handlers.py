"""aiohttp's server: a request arrives when its application handles it."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import RequestBook, serving


def watch_aiohttp(module: ModuleType, book: RequestBook) -> None:
    """Every application of aiohttp's class, those that exist already included."""
    original = module.Application._handle

    @wraps(original)
    async def handle(application: Any, given: Any) -> Any:
        request = book.arrive(f"{given.method} {given.path}")
        with serving((request,)):
            try:
                return await original(application, given)
            finally:
                book.answer(request, when_all_is_read)

    module.Application._handle = handle
