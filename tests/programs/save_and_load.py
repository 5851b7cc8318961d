"""Saves with pickle and with safetensors, and loads everywhere."""

import os
import tempfile

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

torch.manual_seed(0)
folder = tempfile.mkdtemp()
make = lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()  # noqa: E731
model = make()
optimizer = torch.optim.Adam(model.parameters())


def train(steps):
    for step in range(steps):
        x = torch.full((16, 32), step / 10, device="cuda")
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex(), flush=True)


train(10)
path = os.path.join(folder, "model")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".pt")
save_model(model, path + ".safetensors")
save_file({"weight": model[0].weight.detach()}, path + ".one")
for place in ("cuda", "cuda:0", torch.device("cuda"), "cpu", None, {"cuda:0": "cpu"}, lambda storage, _: storage):
    state = torch.load(path + ".pt", map_location=place)
    model = make()
    model.load_state_dict(state["model"])
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(state["optimizer"])
    train(2)
model = make()
load_model(model, path + ".safetensors", device="cuda")
assert load_file(path + ".one", device="cuda")["weight"].is_cuda
assert load_file(path + ".one", device="cuda:0")["weight"].equal(model[0].weight)
optimizer = torch.optim.Adam(model.parameters())
train(2)
