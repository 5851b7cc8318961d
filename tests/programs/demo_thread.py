"""A demo page's queue: the model is made on the main thread, one worker thread serves it, the main thread trains on."""

import queue
import threading

import torch
from torch import nn

torch.manual_seed(0)
served = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 2)).cuda().eval()
trained = nn.Linear(32, 2).cuda()
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
asked, answered = queue.Queue(), {}


def serve():
    while (request := asked.get()) is not None:
        number, x = request
        with torch.no_grad():
            answered[number] = served(x.cuda()).softmax(-1).sum(0)[0].item()


worker = threading.Thread(target=serve, daemon=True)
worker.start()
for step in range(40):
    asked.put((step, torch.full((4, 32), step / 40)))
    x = torch.randn(16, 32).cuda()
    loss = (trained(x) - x[:, :2]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss trained {step} {loss.item().hex()}\n", end="", flush=True)  # one write: threads print at once
asked.put(None)
worker.join()
for number, answer in answered.items():
    print(f"loss served {number} {answer.hex()}\n", end="", flush=True)
assert len(answered) == 40
