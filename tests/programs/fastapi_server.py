"""FastAPI runs its `def` endpoints in a pool of threads; a hundred requests come at once."""

import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import torch
import uvicorn
from fastapi import FastAPI

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)).cuda().eval()
app = FastAPI()


@app.get("/predict/{number}")
def predict(number: int):
    with torch.no_grad():
        return {"answer": model(torch.full((16, 64), number / 100, device="cuda")).sum().item()}


server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started:
    pass
port = server.servers[0].sockets[0].getsockname()[1]


def ask(number):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/predict/{number}") as answer:
        return json.load(answer)["answer"]


with ThreadPoolExecutor(16) as pool:
    for number, answer in enumerate(pool.map(ask, range(100))):
        print("loss", number, answer.hex(), flush=True)
server.should_exit = True
thread.join()
