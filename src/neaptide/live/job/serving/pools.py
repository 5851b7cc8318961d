"""Pools of threads: what a program gives to a pool while it works on a request is work on that request."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.requests import Request, RequestBook, current_requests, serving


def watch_pools(module: ModuleType, _: RequestBook) -> None:
    """Every pool of Python's own class, the one of `run_in_executor` too: it does not keep the context by itself."""
    original = module.ThreadPoolExecutor.submit

    @wraps(original)
    def submit(pool: Any, function: Any, /, *args: Any, **named: Any) -> Any:
        if requests := current_requests():
            return original(pool, _serving, requests, function, *args, **named)
        return original(pool, function, *args, **named)

    module.ThreadPoolExecutor.submit = submit


def _serving(requests: tuple[Request, ...], function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    with serving(requests):
        return function(*args, **named)
