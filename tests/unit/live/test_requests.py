"""The requests of a serving program: announced when they arrive, called, joined in a batch, and answered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

import neaptide
from neaptide.live.job.serving.requests import RequestBook, serving, web_route
from neaptide.live.protocol import messages as say


class Server:
    """A server whose messages are kept."""

    def __init__(self) -> None:
        self.book = RequestBook()
        self.sent: list[say.Message] = []
        self.book.connect(self.sent.append)

    def handle(self, route: str, calls: int = 1) -> None:
        request = self.book.arrive(route)
        with serving((request,)):
            for _ in range(calls):
                self.book.call(joins=False)
        self.book.answer(request)

    def said(self) -> list[str]:
        said = [f"{type(message).__name__} {getattr(message, 'request', '')}".strip() for message in self.sent]
        self.sent.clear()
        return said


def test_a_request_is_announced_at_its_arrival_if_its_route_has_led_to_a_call() -> None:
    server = Server()
    server.handle("POST /answer")
    assert server.said() == ["RequestCalled 1", "RequestAnswered 1"]
    server.handle("POST /answer")
    assert server.said() == ["RequestExpected 2", "RequestCalled 2", "RequestAnswered 2"]


def test_a_request_that_never_calls_a_model_is_not_announced() -> None:
    server = Server()
    for _ in range(3):
        server.handle("GET /health", calls=0)
    assert server.said() == []


def test_a_call_without_a_request_is_a_request_unless_it_joins_another() -> None:
    server = Server()
    server.book.call(joins=False)
    server.book.call(joins=True)
    assert server.said() == ["RequestArrived"]


def test_every_call_of_one_request_names_it_again() -> None:
    server = Server()
    server.handle("POST /generate", calls=3)
    assert server.said() == ["RequestCalled 1"] * 3 + ["RequestAnswered 1"]


def test_work_after_the_answer_that_calls_a_model_is_a_request_by_itself() -> None:
    server = Server()
    request = server.book.arrive("POST /answer")
    with serving((request,)):
        server.book.call(joins=False)
        server.book.answer(request)
        server.book.call(joins=False)
    assert server.said() == ["RequestCalled 1", "RequestAnswered 1", "RequestArrived"]


@pytest.mark.parametrize(
    ("path", "other"), [("/items/17", "/items/18"), ("/v1/users/a7f3-11/score", "/v1/users/b9/score")]
)
def test_paths_that_name_things_by_number_are_one_route(path: str, other: str) -> None:
    server = Server()
    server.handle(web_route("GET", path))
    server.said()
    server.handle(web_route("GET", other))
    assert server.said() == ["RequestExpected 2", "RequestCalled 2", "RequestAnswered 2"]
    assert web_route("GET", "/health") == "GET /health"


def test_one_call_for_several_requests_has_one_iteration() -> None:
    server = Server()
    waiting = [server.book.arrive("POST /answer") for _ in range(3)]

    def batch() -> None:  # on a thread of its own, which knows of no request
        with neaptide.serving(waiting):
            server.book.call(joins=False)

    thread = threading.Thread(target=batch)
    thread.start()
    thread.join()
    joins = [message.joins for message in server.sent if isinstance(message, say.RequestCalled)]
    assert joins == [False, True, True]


def test_threads_inherit_the_request_of_the_context_that_starts_them() -> None:
    server = Server()
    request = server.book.arrive("POST /answer")
    with ThreadPoolExecutor(1) as pool, serving((request,)):
        pool.submit(copy_context().run, server.book.call, False).result()
    assert server.said() == ["RequestCalled 1"]


def test_a_request_has_waited_since_it_reached_the_program() -> None:
    server = Server()
    request = server.book.arrive("POST /answer")
    request.arrived_ns -= 50_000_000
    with serving((request,)):
        server.book.call(joins=False)
    server.book.answer(request)
    called, answered = server.sent
    assert isinstance(called, say.RequestCalled)
    assert isinstance(answered, say.RequestAnswered)
    assert 50_000_000 <= called.waited_ns <= answered.took_ns


def test_a_request_is_answered_once() -> None:
    server = Server()
    server.handle("POST /answer")
    server.said()
    request = server.book.arrive("POST /answer")
    server.book.answer(request)
    server.book.answer(request)
    assert server.said() == ["RequestExpected 2", "RequestAnswered 2"]


def test_the_deadline_of_a_route_is_known_at_the_next_arrival() -> None:
    server = Server()
    request = server.book.arrive("POST /answer")
    request.deadline_ns = 7
    with serving((request,)):
        server.book.call(joins=False)
    server.sent.clear()
    server.book.arrive("POST /answer")
    assert server.sent == [say.RequestExpected(2, 7)]


def test_a_request_inside_a_frameworks_request_is_the_same_one_with_another_deadline() -> None:
    server = Server()
    outer = server.book.arrive("POST /answer")
    with serving((outer,)), neaptide.request(deadline="300ms") as inner:
        assert inner is outer
    assert outer.deadline_ns == 300_000_000


def test_a_process_that_is_no_job_can_say_what_it_serves() -> None:
    with neaptide.request() as request, neaptide.serving([request]):
        pass
    assert request.answered


@pytest.mark.parametrize("deadline", [0, -1, "0s", 2e6, float("nan"), "soon"])
def test_a_deadline_that_is_none_is_refused_in_one_line(deadline: str | float) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"), neaptide.request(deadline=deadline):
        pass
