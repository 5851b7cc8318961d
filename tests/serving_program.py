"""A server as a program: python serving_program.py STYLE [ROWS]. It prints its port and serves until it is killed.

It has two models. Weights and questions are small whole numbers, so that an answer is exact, whatever else is in its
batch. ROWS is how large the batch of a request is: it makes a request need more memory.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 512
GRPC_METHOD = "/neaptide.Models/predict"
Predict = Callable[[int, int], int]  # of a model and a question


def network(seed: int) -> nn.Module:
    """One of the two models."""
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8)).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = torch.randint(-3, 4, parameter.shape, generator=generator).float()
    return model


def question(number: int) -> Tensor:
    return torch.full((64,), float(number % 8))


def answer(row: Tensor) -> int:
    return sum(int(each) * place for place, each in enumerate(row.tolist(), 1))


def predictor(rows: int) -> Predict:
    """Calls a model on the thread that asks."""
    models = [network(seed).to("soft") for seed in (0, 1)]

    def predict(which: int, number: int) -> int:
        with torch.no_grad():
            return answer(models[which](question(number).expand(rows, 64).to("soft"))[0].cpu())

    return predict


def fastapi_application(predict: Predict, threads: bool) -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    def on_a_thread(which: int, number: int) -> int:
        return predict(which, number)

    async def in_the_loop(which: int, number: int) -> int:
        return predict(which, number)

    app.get("/{which}/{number}")(on_a_thread if threads else in_the_loop)
    return app


def serve_fastapi(threads: bool, rows: int) -> None:
    import uvicorn

    app = fastapi_application(predictor(rows), threads)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    say_port(server.servers[0].sockets[0].getsockname()[1])


def serve_flask(predict: Predict) -> None:
    from flask import Flask
    from werkzeug.serving import make_server

    app = Flask(__name__)
    app.get("/<int:which>/<int:number>")(lambda which, number: str(predict(which, number)))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    say_port(server.port)
    server.serve_forever()


def serve_batches(rows: int) -> None:
    """Threads of Flask put requests into a queue, and one thread serves those of one model together."""
    import neaptide

    models = [network(seed).to("soft") for seed in (0, 1)]
    waiting: tuple[queue.Queue[Any], ...] = (queue.Queue(), queue.Queue())
    some = threading.Semaphore(0)

    def serve_waiting() -> None:
        while some.acquire():
            for model, those in zip(models, waiting, strict=True):
                taken = [those.get() for _ in range(min(those.qsize(), 4))]
                if not taken:
                    continue
                with neaptide.serving([request for request, _, _ in taken]), torch.no_grad():
                    batch = torch.stack([x for _, x, _ in taken]).repeat(rows, 1)
                    found = model(batch.to("soft")).cpu()
                for (_, _, future), row in zip(taken, found, strict=False):
                    future.set_result(answer(row))

    def submit(which: int, number: int) -> int:
        with neaptide.request() as request:
            future: Future[int] = Future()
            waiting[which].put((request, question(number), future))
            some.release()
            return future.result(60)

    threading.Thread(target=serve_waiting, daemon=True).start()
    serve_flask(submit)


def serve_grpc(rows: int) -> None:
    import grpc

    predict = predictor(rows)

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            assert details.method == GRPC_METHOD
            return grpc.unary_unary_rpc_method_handler(lambda given, _: str(predict(*map(int, given.split()))).encode())

    server = grpc.server(ThreadPoolExecutor(8), handlers=(Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    say_port(port)
    server.wait_for_termination()


def say_port(port: int) -> None:
    print(port, flush=True)


STYLES: dict[str, Callable[[int], None]] = {
    "fastapi-async": lambda rows: serve_fastapi(False, rows),
    "fastapi-def": lambda rows: serve_fastapi(True, rows),
    "flask": lambda rows: serve_flask(predictor(rows)),
    "batches": serve_batches,
    "grpc": serve_grpc,
}


if __name__ == "__main__":
    STYLES[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    threading.Event().wait()
