"""Real web frameworks tell of their requests from arrival to answer, and pass the request on to the model's call."""

from __future__ import annotations

import asyncio
import importlib
import socket
import sys
import threading
import types
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from daemons import until
from neaptide.live.job.serving import servers
from neaptide.live.job.serving.requests import RequestBook
from neaptide.live.job.serving.servers import INSTALLERS, watch_servers
from neaptide.live.protocol import messages as say
from served_model import CHANGED, Model, Served, watched_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def model() -> Iterator[Model]:
    with watched_model() as made:
        yield made


def test_every_framework_that_is_watched_is_tried_here() -> None:
    assert {module for module, _, _ in CHANGED} == set(INSTALLERS)


async def _ask(application: Any, path: str = "/answer") -> list[Any]:
    """One request to an ASGI application, without a server."""
    heard: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        heard.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "server": ("here", 80),
        "client": ("here", 1),
        "root_path": "",
    }
    await application(scope, receive, send)
    return heard


@pytest.mark.parametrize("asynchronous", [False, True])
def test_fastapi_tells_of_its_requests(model: Model, asynchronous: bool) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()
    if asynchronous:

        @application.get("/answer")
        async def answer() -> str:
            return model()

    else:

        @application.get("/answer")
        def answer_on_a_thread() -> str:
            return model()

    @application.get("/health")
    def health() -> str:
        return "well"

    async def several() -> None:
        await _ask(application)
        await asyncio.gather(*(_ask(application) for _ in range(9)), *(_ask(application, "/health") for _ in range(5)))

    asyncio.run(several())
    model.check(10)


def test_an_application_under_uvicorn_and_starlette_has_one_request_per_request(model: Model) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()

    @application.get("/answer")
    def answer() -> str:
        return model()

    with Served(application) as port:
        _get(port, 4)
    model.check(4)


@pytest.mark.parametrize("connects", [False, True], ids=["open connection", "new connection"])
def test_a_request_that_waits_in_its_socket_is_announced_before_the_answer_to_the_one_before(
    model: Model, connects: bool
) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()
    sends: list[Callable[[], None]] = []

    @application.get("/answer")
    async def answer() -> str:  # it keeps the server's loop from reading
        for send in sends:
            send()
        sends.clear()
        return model()

    with Served(application) as port, ExitStack() as lines:
        one, other = (lines.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(2))
        _ask_over(one)
        if not connects:
            _ask_over(other)
        model.wait_until_all_is_over()
        known = len(model.sent)
        sends.append(lambda: other.sendall(_QUESTION))
        _ask_over(one)
        _read_answer(other)
        model.wait_until_all_is_over()
    course = [type(message) for message in model.sent[known:]]
    a_request = [say.RequestExpected, say.RequestCalled, say.RequestAnswered]
    assert course == [*a_request[:2], a_request[0], a_request[2], *a_request[1:]]


def test_an_answer_is_given_before_background_work_is_done(model: Model) -> None:
    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        model()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})
        for _ in range(20):
            await asyncio.sleep(0)  # the loop has read what there is
        assert isinstance(model.sent[-1], say.RequestAnswered)

    hypercorn = importlib.import_module("hypercorn.app_wrappers")
    asyncio.run(_ask(hypercorn.ASGIWrapper(application).app))
    model.check(1)


def test_a_request_that_fails_is_answered(model: Model) -> None:
    async def application(*_: Any) -> None:
        model()
        raise RuntimeError("no")

    hypercorn = importlib.import_module("hypercorn.app_wrappers")
    with pytest.raises(RuntimeError, match="no"):
        asyncio.run(_ask(hypercorn.ASGIWrapper(application).app))
    model.check(1)


def test_flask_tells_of_its_requests_also_of_those_that_stream(model: Model) -> None:
    flask = importlib.import_module("flask")
    application = flask.Flask("application")

    @application.get("/answer")
    def answer() -> Any:
        return flask.Response(model() for _ in range(1))

    for _ in range(3):
        with application.test_client() as client:
            assert client.get("/answer").text == "answer"
    model.check(3)


def test_gunicorns_application_tells_of_its_requests(model: Model) -> None:
    base = importlib.import_module("gunicorn.app.base")

    class Application(base.BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            pass

        def load(self) -> Any:
            return lambda *_: [model().encode()]

    served = Application().wsgi()
    body = served({"REQUEST_METHOD": "GET", "PATH_INFO": "/answer"}, lambda *_: None)
    assert b"".join(body) == b"answer"
    body.close()
    model.check(1)


def test_aiohttp_tells_of_its_requests(model: Model) -> None:
    web = importlib.import_module("aiohttp.web")
    client = importlib.import_module("aiohttp")

    async def answer(_: Any) -> Any:
        return web.Response(text=model())

    async def serve_and_ask() -> None:
        application = web.Application()
        application.router.add_get("/answer", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        async with client.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"http://127.0.0.1:{port}/answer") as response:
                    assert await response.text() == "answer"
        await runner.cleanup()

    asyncio.run(serve_and_ask())
    model.check(3)


def test_grpc_tells_of_requests_that_wait_for_a_thread(model: Model) -> None:
    grpc = importlib.import_module("grpc")
    holds = threading.Event()

    def answer(message: bytes, _: Any) -> bytes:
        holds.wait(60)
        return model().encode() + message

    handler = grpc.method_handlers_generic_handler("Service", {"Answer": grpc.unary_unary_rpc_method_handler(answer)})
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/Service/Answer")
            holds.set()
            assert call(b"!") == b"answer!"
            holds.clear()
            waiting = [call.future(b"?") for _ in range(3)]
            while sum(isinstance(message, say.RequestExpected) for message in model.sent) < 3:
                pass  # though one thread serves all of them
            holds.set()
            assert [each.result() for each in waiting] == [b"answer?"] * 3
        server.stop(None).wait()
    kinds = [type(message) for message in model.sent]
    assert kinds.count(say.RequestCalled) == kinds.count(say.RequestAnswered) == 4


def test_grpc_requests_that_never_reach_the_program_are_over_all_the_same(model: Model) -> None:
    grpc = importlib.import_module("grpc")
    holds, inside = threading.Event(), threading.Event()

    def answer(message: bytes, _: Any) -> bytes:
        inside.set()
        holds.wait(60)
        return model().encode() + message

    def readable(message: bytes) -> bytes:
        if message == b"unreadable":
            raise ValueError(message)
        return message

    methods = {"Answer": grpc.unary_unary_rpc_method_handler(answer, request_deserializer=readable)}
    handler = grpc.method_handlers_generic_handler("Service", methods)
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, maximum_concurrent_rpcs=2)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/Service/Answer")
            holds.set()
            assert call(b"!") == b"answer!"
            with pytest.raises(grpc.RpcError):
                call(b"unreadable")
            holds.clear()
            inside.clear()
            first = call.future(b"?")
            assert inside.wait(60)
            queued = call.future(b"?")  # it waits for the thread
            while model.count(say.RequestExpected) < 3:
                pass
            with pytest.raises(grpc.RpcError, match="Concurrent RPC limit exceeded"):
                call(b"one too many")
            queued.cancel()
            holds.set()
            assert first.result() == b"answer?"
            until(lambda: model.count(say.RequestAnswered) == 5, "all to be over")
        server.stop(None).wait()
    assert model.count(say.RequestExpected) == 4


def test_a_framework_is_watched_when_the_program_imports_it_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "a_framework.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    seen: list[int] = []
    watch_servers(RequestBook(), {"a_framework": lambda module, _: seen.append(module.value)})
    assert seen == []
    importlib.import_module("a_framework")
    importlib.reload(sys.modules["a_framework"])
    assert seen == [1]
    monkeypatch.delitem(sys.modules, "a_framework")


def test_another_version_of_a_framework_is_one_line_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "flask.app", types.ModuleType("flask.app"))
    watch_servers(RequestBook(), {"flask.app": servers.INSTALLERS["flask.app"]})
    assert capfd.readouterr().err.startswith("neaptide: requests of flask.app are not seen when they arrive: ")


def _get(port: int, count: int) -> None:
    for _ in range(count):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/answer") as response:
            assert response.read() == b'"answer"'


_QUESTION = b"GET /answer HTTP/1.1\r\nHost: here\r\n\r\n"


def _ask_over(line: socket.socket) -> None:
    line.sendall(_QUESTION)
    _read_answer(line)


def _read_answer(line: socket.socket) -> None:
    said = b""
    while not said.endswith(b'"answer"'):
        said += line.recv(1 << 16)
