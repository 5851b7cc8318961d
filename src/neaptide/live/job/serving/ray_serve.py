"""Ray Serve: a request arrives when its replica takes it, before the replica's limit of ongoing requests lets it begin.

The replica wraps every request, whichever way it came (HTTP, gRPC, a deployment's handle), in one context manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from neaptide.live.job.serving.event_loop import when_all_is_read
from neaptide.live.job.serving.requests import RequestBook, now_serving


def watch_replica(module: ModuleType, book: RequestBook) -> None:
    """Every request that a replica of this process wraps."""
    original = module.Replica._wrap_request

    @wraps(original)
    @contextmanager
    def wrap_request(replica: Any, metadata: Any, *rest: Any, **named: Any) -> Iterator[Any]:
        request = book.arrive(f"{getattr(metadata, 'route', '')} {getattr(metadata, 'call_method', '')}")
        now_serving((request,))  # until the task of this request ends: a generator may be closed in another context
        try:
            with original(replica, metadata, *rest, **named) as given:
                yield given
        finally:
            book.answer(request, when_all_is_read)

    module.Replica._wrap_request = wrap_request
