"""Streams of messages, servers with queues of their own, pools and Ray Serve: no request is lost or counted twice."""

from __future__ import annotations

import asyncio
import importlib
import threading
import types
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from daemons import until
from neaptide.live.job.serving import ray_serve
from neaptide.live.job.serving.requests import Request, current_requests
from neaptide.live.protocol import messages as say
from served_model import Model, Served, watched_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def model() -> Iterator[Model]:
    with watched_model() as made:
        yield made


# --- websockets


async def _talk(url: str, messages: int) -> None:
    """Send messages over one websocket, each when the answer to the one before has come."""
    client = importlib.import_module("aiohttp")
    async with client.ClientSession() as session, session.ws_connect(url) as line:
        for _ in range(messages):
            await line.send_str("?")
            assert (await line.receive()).data == "answer"


def test_each_message_of_a_websocket_is_a_request(model: Model) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()

    async def answer(line: Any) -> None:
        await line.accept()
        async for _ in line.iter_text():
            await line.send_text(model())

    answer.__annotations__["line"] = fastapi.WebSocket
    application.websocket("/answer")(answer)
    with Served(application, ws="wsproto") as port:
        asyncio.run(_talk(f"ws://127.0.0.1:{port}/answer", 3))
        model.check(3)


def test_each_message_of_a_websocket_of_aiohttp_is_a_request(model: Model) -> None:
    web = importlib.import_module("aiohttp.web")

    async def answer(given: Any) -> Any:
        line = web.WebSocketResponse()
        await line.prepare(given)
        async for _ in line:
            await line.send_str(model())
        return line

    async def serve_and_talk() -> None:
        application = web.Application()
        application.router.add_get("/answer", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        await _talk(f"http://127.0.0.1:{port}/answer", 3)
        await runner.cleanup()

    asyncio.run(serve_and_talk())
    model.check(3)


# --- gRPC

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


def _handlers(behaviour: dict[str, Any]) -> Any:
    grpc = importlib.import_module("grpc")
    methods = {kind: getattr(grpc, f"{kind}_rpc_method_handler")(behaviour[kind]) for kind in _KINDS}
    return grpc.method_handlers_generic_handler("Service", methods)


def _call(channel: Any, kind: str, messages: int) -> list[bytes]:
    """A call of each kind; its answers."""
    call = getattr(channel, kind)(f"/Service/{kind}")
    said = call(iter([b"?"] * messages)) if kind.startswith("stream") else call(b"?")
    return list(said) if kind.endswith("stream") else [said]


def _in_threads(model: Model) -> dict[str, Any]:
    def several(message: bytes, _: Any) -> Iterator[bytes]:
        yield model().encode() + message

    def one_for_all(messages: Iterator[bytes], _: Any) -> bytes:
        return b"".join([model().encode() + message for message in messages])

    def one_for_each(messages: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for message in messages:
            yield model().encode() + message

    return {
        "unary_unary": lambda message, _: model().encode() + message,
        "unary_stream": several,
        "stream_unary": one_for_all,
        "stream_stream": one_for_each,
    }


def _in_a_loop(model: Model) -> dict[str, Any]:
    async def one(message: bytes, _: Any) -> bytes:
        return model().encode() + message

    async def several(message: bytes, _: Any) -> AsyncIterator[bytes]:
        yield model().encode() + message

    async def one_for_all(messages: AsyncIterator[bytes], _: Any) -> bytes:
        return b"".join([model().encode() + message async for message in messages])

    async def one_for_each(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for message in messages:
            yield model().encode() + message

    return {"unary_unary": one, "unary_stream": several, "stream_unary": one_for_all, "stream_stream": one_for_each}


def _check_kind(model: Model, kind: str, port: int) -> None:
    """Two calls of a kind, with three messages each where it takes a stream."""
    grpc = importlib.import_module("grpc")
    messages = 3 if kind.startswith("stream") else 1
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for _ in range(2):
            assert b"".join(_call(channel, kind, messages)) == b"answer?" * messages
    model.check(2 * messages)


@pytest.mark.parametrize("kind", _KINDS)
def test_each_message_to_a_grpc_server_with_threads_is_a_request(model: Model, kind: str) -> None:
    grpc = importlib.import_module("grpc")
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((_handlers(_in_threads(model)),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        _check_kind(model, kind, port)
        server.stop(None).wait()


@contextmanager
def _aio_server(behaviour: dict[str, Any]) -> Iterator[int]:
    """A server with an event loop, on a thread."""
    aio = importlib.import_module("grpc.aio")
    listens, ends = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def serve() -> None:
        server = aio.server()
        server.add_generic_rpc_handlers((_handlers(behaviour),))
        found.extend((asyncio.get_running_loop(), server.add_insecure_port("127.0.0.1:0")))
        await server.start()
        listens.set()
        await ends.wait()
        await server.stop(None)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert listens.wait(60)
    try:
        yield found[1]
    finally:
        found[0].call_soon_threadsafe(ends.set)
        thread.join()


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("behaviour", [_in_a_loop, _in_threads], ids=["coroutines", "functions"])
def test_each_message_to_a_grpc_server_with_a_loop_is_a_request(model: Model, kind: str, behaviour: Any) -> None:
    with _aio_server(behaviour(model)) as port:
        _check_kind(model, kind, port)


def test_a_grpc_call_with_a_loop_whose_client_leaves_is_over(model: Model) -> None:
    grpc = importlib.import_module("grpc")
    inside = threading.Event()

    async def answer(_: bytes, __: Any) -> bytes:
        model()
        inside.set()
        await asyncio.sleep(3600)
        return b""

    with _aio_server({**_in_a_loop(model), "unary_unary": answer}) as port:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/Service/unary_unary").future(b"?")
            assert inside.wait(60)
            call.cancel()
        model.check(1)


# --- servers and pools


def _wsgi(model: Model) -> Any:
    def application(_: Any, start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return [model().encode()]

    return application


def test_an_application_of_wsgi_under_hypercorn_tells_of_its_requests(model: Model) -> None:
    hypercorn = importlib.import_module("hypercorn.app_wrappers")
    wrapper = hypercorn.WSGIWrapper(_wsgi(model), 1000)
    said: list[Any] = []
    for _ in range(2):
        wrapper.run_app({"REQUEST_METHOD": "GET", "PATH_INFO": "/answer"}, said.append)
    assert [each["body"] for each in said if "body" in each] == [b"answer"] * 2
    model.check(2)


def test_a_request_that_waits_for_a_thread_of_waitress_is_known(model: Model) -> None:
    waitress = importlib.import_module("waitress.server")
    holds, inside = threading.Event(), threading.Semaphore(0)
    application = _wsgi(model)

    def held(environ: Any, start: Any) -> list[bytes]:
        inside.release()
        assert holds.wait(60)
        found: list[bytes] = application(environ, start)
        return found

    server = waitress.create_server(held, host="127.0.0.1", port=0, threads=1)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with ThreadPoolExecutor(4) as clients:
            holds.set()
            assert clients.submit(_read, server.effective_port).result() == b"answer"
            holds.clear()
            waiting = [clients.submit(_read, server.effective_port) for _ in range(3)]
            until(lambda: model.count(say.RequestExpected) == 3, "all to be known, though one thread serves them")
            holds.set()
            assert [each.result() for each in waiting] == [b"answer"] * 3
    finally:
        server.trigger.pull_trigger(server.close)  # on the thread of its loop
        thread.join()
        server.task_dispatcher.shutdown()
    model.check(4)


def _read(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/answer") as said:
        return bytes(said.read())


def test_what_a_request_gives_to_a_pool_of_threads_is_work_on_it(model: Model) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()

    @application.get("/answer")
    async def answer() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, model)

    with Served(application) as port:
        for _ in range(3):
            assert _read(port) == b'"answer"'
        model.check(3)


def test_a_request_that_ends_before_its_work_does_is_answered_and_the_work_is_a_request_by_itself(model: Model) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()
    holds, done = threading.Event(), threading.Event()
    requests: list[Request] = []

    def work() -> None:
        assert holds.wait(60)
        model.book.call(joins=False)
        done.set()

    @application.get("/answer")
    async def answer() -> str:
        requests.extend(current_requests())
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(loop.run_in_executor(None, work), 0.01)
        except TimeoutError:
            return "too late"
        return "in time"

    with Served(application) as port:
        assert _read(port) == b'"too late"'
        until(lambda: requests[0].answered, "the server to come to the end of the request")
        holds.set()
        assert done.wait(60)
    assert model.sent == [say.RequestArrived()]


def test_work_after_the_answer_is_no_part_of_the_request(model: Model) -> None:
    fastapi = importlib.import_module("fastapi")
    application = fastapi.FastAPI()
    done = threading.Event()

    def work() -> None:
        model.book.call(joins=False)
        done.set()

    def answer(after: Any) -> str:
        after.add_task(work)
        return model()

    answer.__annotations__["after"] = fastapi.BackgroundTasks
    application.get("/answer")(answer)
    with Served(application) as port:
        assert _read(port) == b'"answer"'
        assert done.wait(60)
        model.wait_until_all_is_over()
    kinds = [type(message) for message in model.sent]
    assert kinds.count(say.RequestCalled) == kinds.count(say.RequestAnswered) == kinds.count(say.RequestArrived) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_that_streams_is_given_with_its_last_part_also_if_it_fails(model: Model, fails: bool) -> None:
    fastapi, responses = importlib.import_module("fastapi"), importlib.import_module("fastapi.responses")
    application = fastapi.FastAPI()

    @application.get("/answer")
    def answer() -> Any:
        def parts() -> Iterator[str]:
            yield model()
            yield model()
            if fails:
                raise RuntimeError

        return responses.StreamingResponse(parts())

    with Served(application) as port:
        try:
            assert _read(port) == b"answeranswer"
            assert not fails
        except (OSError, importlib.import_module("http.client").HTTPException):
            assert fails
        until(lambda: model.count(say.RequestAnswered) == 1, "it to be over")
    kinds = [type(message) for message in model.sent]
    assert kinds == [say.RequestCalled, say.RequestCalled, say.RequestAnswered]


# --- Ray Serve, which may not be installed: its replica as its source has it


def test_each_request_that_a_replica_of_ray_serve_wraps_is_a_request(model: Model) -> None:
    class Replica:
        @contextmanager
        def _wrap_request(self, metadata: Any, _: Any = None) -> Iterator[str]:
            yield f"status of {metadata.call_method}"

        async def handle_request(self, metadata: Any) -> str:
            with self._wrap_request(metadata, None) as status:
                await asyncio.sleep(0)
                return f"{status}: {model()}"

        async def handle_request_streaming(self, metadata: Any) -> AsyncIterator[str]:
            with self._wrap_request(metadata):
                yield model()
                yield model()

    module = types.ModuleType("ray.serve._private.replica")
    module.Replica = Replica  # type: ignore[attr-defined]
    ray_serve.watch_replica(module, model.book)
    metadata, replica = types.SimpleNamespace(route="/answer", call_method="__call__"), Replica()

    async def several() -> None:
        assert await replica.handle_request(metadata) == "status of __call__: answer"
        await asyncio.gather(*(replica.handle_request(metadata) for _ in range(3)))

    asyncio.run(several())
    model.check(4)

    async def close_early() -> None:  # as when the client of a stream is gone
        stream = replica.handle_request_streaming(metadata)
        assert await anext(stream) == "answer"
        await asyncio.create_task(stream.aclose())  # in another context

    asyncio.run(close_early())
    model.check(5)
