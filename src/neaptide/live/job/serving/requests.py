"""The requests that a serving program works on: when each reached the program, and which call of a model serves it.

A request is announced to the daemon when it arrives if an earlier one of its route has led to a call of a model: a
question for the server's health, which never does, should hold up no other job. The first request of a route is
announced at its call, with the time at which it arrived.

The program's context says which requests a call serves: a framework sets it when a request comes, and threads and tasks
that the framework starts for it inherit it.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from neaptide.core.control.job_limits import MOST_DEADLINE_SECONDS
from neaptide.core.units import parse_seconds
from neaptide.live.protocol.messages import (
    CallWithdrawn,
    Message,
    RequestAnswered,
    RequestArrived,
    RequestCalled,
    RequestExpected,
)

_MOST_ROUTES = 1024  # of which it is remembered that they lead to calls
_NAMES_ONE = re.compile(r"[^/]*\d[^/]*")  # a part of a path such as 17 in /items/17

Later = Callable[[Callable[[], None]], None]
"""Makes a call later."""

_current: ContextVar[tuple[Request, ...]] = ContextVar("neaptide_requests", default=())


@dataclass(eq=False, slots=True)
class Request:
    """One request, from its arrival to its answer."""

    number: int
    route: str
    arrived_ns: int  # on the steady clock
    deadline_ns: int | None = None  # of its own; None: the job's
    announced: bool = False  # the daemon knows of it
    answered: bool = False


class RequestBook:
    """The requests of this process. Calls may come from any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        # The daemon hears of a request's arrival, calls and answer in this order. A finaliser may answer at any line.
        self._lock = threading.RLock()
        self._serving_routes: dict[str, int | None] = {}  # with the deadline that a request of the route had last
        self._send: Callable[[Message], None] | None = None
        self._unsaid: deque[Message] = deque()  # answers, until the server has read what came before them

    def connect(self, send: Callable[[Message], None]) -> None:
        """The job was measured: from now on the daemon is told of requests."""
        self._send = send

    def arrive(self, route: str, deadline_ns: int | None = None, waited_ns: int = 0) -> Request:
        """A request has reached the program, `waited_ns` after it had reached the machine."""
        request = Request(next(self._numbers), route, time.monotonic_ns() - waited_ns, deadline_ns)
        with self._lock:
            if self._send is not None and route in self._serving_routes:
                request.announced = True
                request.deadline_ns = self._serving_routes[route] if deadline_ns is None else deadline_ns
                self._send(RequestExpected(request.number, request.deadline_ns, waited_ns))
                self._say_answers()
        return request

    def answer(self, request: Request, later: Later | None = None) -> None:
        """The program has answered the request.

        A server that reads no requests while it works on one says `later`, which makes a call when the server has read
        those that came meanwhile. The daemon is told then, or when the next one is announced. If it were told at once,
        no request would be there for a moment, and other jobs would begin kernels before the next one.
        """
        with self._lock:
            if request.answered:
                return
            request.answered = True
            if not request.announced:
                return
            self._unsaid.append(RequestAnswered(request.number, time.monotonic_ns() - request.arrived_ns))
        (later or _at_once)(self._say_answers)

    def _say_answers(self) -> None:
        with self._lock:
            while self._unsaid and self._send is not None:
                self._send(self._unsaid.popleft())

    def call(self, joins: bool) -> None:
        """The program calls its model in the present context; the call `joins` an iteration that is open already.

        A call for requests that were answered before, as in background work, is a request by itself.
        """
        with self._lock:
            if self._send is None:
                return
            served = current_requests()
            if not served and not joins:  # nobody knows for whom: the call is the arrival
                self._send(RequestArrived())
            for request in served:
                if len(self._serving_routes) < _MOST_ROUTES or request.route in self._serving_routes:
                    self._serving_routes[request.route] = request.deadline_ns
                request.announced = True
                waited_ns = time.monotonic_ns() - request.arrived_ns
                self._send(RequestCalled(request.number, waited_ns, joins, request.deadline_ns))
                joins = True  # one iteration serves them all

    def withdraw_call(self) -> None:
        """The call of the model has returned and launched nothing."""
        with self._lock:
            if self._send is not None:
                self._send(CallWithdrawn())


class Held:
    """A request that its server may drop unserved, as when its client is gone before it is served: it is over then."""

    def __init__(self, request: Request, book: RequestBook) -> None:
        self.request, self._book = request, book

    def __del__(self) -> None:
        self._book.answer(self.request)


def web_route(method: str, path: str) -> str:
    """What a request asks for: the paths of one route that name different things are one."""
    return f"{method} {_NAMES_ONE.sub('*', path)}"


def _at_once(call: Callable[[], None]) -> None:
    call()


def current_requests() -> tuple[Request, ...]:
    """The requests that a call in the present context serves: those of the context that were not answered."""
    return tuple(request for request in _current.get() if not request.answered)


def now_serving(requests: Iterable[Request]) -> None:
    """Say which requests the calls of a model serve from now on in the present context."""
    _current.set(tuple(requests))


@contextmanager
def serving(requests: Iterable[Request]) -> Iterator[None]:
    """Say which requests the calls of a model inside serve, as a server does that puts several into one batch."""
    token = _current.set(tuple(requests))
    try:
        yield
    finally:
        _current.reset(token)


def deadline_ns_of(deadline: str | float | None) -> int | None:
    """A deadline as a user writes it: seconds, or a text such as 300ms; ValueError if it is none."""
    if deadline is None:
        return None
    seconds = parse_seconds(deadline) if isinstance(deadline, str) else float(deadline)
    if not 0 < seconds <= MOST_DEADLINE_SECONDS:
        raise ValueError(f"deadline must be more than 0 and at most {MOST_DEADLINE_SECONDS:g} seconds, not {deadline}")
    return round(seconds * 1e9)
