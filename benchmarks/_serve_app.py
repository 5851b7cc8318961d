"""The server of `neaptide bench serve`: a small BERT behind FastAPI, which says its port in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import uvicorn
from benchmarks._networks import NETWORKS, to_device
from fastapi import FastAPI

import neaptide.devices.soft  # noqa: F401


def application(batch: int, threads: bool) -> FastAPI:
    """One request is one batch. A `def` endpoint runs in a pool of threads, an `async def` one in the server's loop."""
    torch.manual_seed(0)
    recipe = NETWORKS["BERT"]
    model = recipe.module().to("soft").eval()
    *inputs, _ = recipe.sample(batch)

    def predict() -> float:
        with torch.no_grad():
            found = model(*to_device(inputs))
        first = found[0] if isinstance(found, tuple) else found
        return float(first.sum().item())

    async def predict_in_loop() -> float:
        return predict()

    app = FastAPI()
    app.get("/predict")(predict if threads else predict_in_loop)
    return app


def main(batch: str, style: str, port_file: str) -> None:
    """Serve until killed."""
    app = application(int(batch), style == "def")
    # A client may be stopped for long between two rounds.
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_keep_alive=600))
    started = server.startup

    async def start_and_say(sockets: object = None) -> None:
        await started(sockets)  # type: ignore[arg-type]
        port = server.servers[0].sockets[0].getsockname()[1]
        Path(port_file).with_suffix(".new").write_text(str(port))
        Path(port_file).with_suffix(".new").rename(port_file)

    server.startup = start_and_say  # type: ignore[method-assign,assignment]
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
