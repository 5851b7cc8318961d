"""aiohttp's server: a request arrives when its application handles it. Of a websocket each message is a request."""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import RequestBook, serving, web_route
from neaptide.live.job.serving.streams import Messages, messages_of_loop

_messages: ContextVar[Messages | None] = ContextVar("neaptide_messages", default=None)


def watch_aiohttp(module: ModuleType, book: RequestBook) -> None:
    """Every application of aiohttp's class, those that exist already included."""
    original = module.Application._handle

    @wraps(original)
    async def handle(application: Any, given: Any) -> Any:
        route = web_route(given.method, given.path)
        if given.headers.get("Upgrade", "").lower() == "websocket":
            return await _handle_messages(original(application, given), messages_of_loop(route, book))
        request = book.arrive(route)
        with serving((request,)):
            try:
                return await original(application, given)
            finally:
                book.answer(request, when_all_is_read)

    module.Application._handle = handle


async def _handle_messages(handling: Any, messages: Messages) -> Any:
    token = _messages.set(messages)
    try:
        return await handling
    finally:
        _messages.reset(token)
        messages.over()


def watch_websockets(module: ModuleType, _: RequestBook) -> None:
    """What the handler of a websocket receives."""
    original = module.WebSocketResponse.receive

    @wraps(original)
    async def receive(websocket: Any, *rest: Any, **named: Any) -> Any:
        messages = _messages.get()
        if messages is None:
            return await original(websocket, *rest, **named)
        messages.over()
        message = await original(websocket, *rest, **named)
        if message.type.name in ("TEXT", "BINARY"):
            messages.taken()
        return message

    module.WebSocketResponse.receive = receive
