"""Trains, saves everything including the random states, starts anew from the file, and evaluates."""

# ruff: noqa: NPY002 - as such programs are written
import os
import random
import sys
import tempfile

import numpy as np
import torch
from torch import nn

named = len(sys.argv) > 1
DEVICE = torch.device(sys.argv[2] if named else "cuda" if torch.cuda.is_available() else "cpu")
rng = torch.soft if named else torch.cuda
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pth.tar")


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True


def build():
    model = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 3))
    model = model.to(DEVICE)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model, optimizer, steps):
    model.train()
    for _ in range(steps):
        noise = torch.randn(8, 10, device=DEVICE)
        target = torch.randint(0, 3, (8,), device=DEVICE)
        loss = nn.functional.cross_entropy(model(noise), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


losses = []
set_seed(11)
model, optimizer = build()
train(model, optimizer, 4)
state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "device": DEVICE}
torch.save({**state, "rng": rng.get_rng_state_all()}, path)
train(model, optimizer, 3)
for map_location in (None, DEVICE, str(DEVICE), "cpu", lambda storage, _: storage):
    checkpoint = torch.load(path, map_location=map_location, weights_only=False)
    model, optimizer = build()
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    rng.set_rng_state_all([state.cpu() for state in checkpoint["rng"]])
    train(model, optimizer, 3)
    assert losses[-3:] == losses[4:7]
    assert next(iter(optimizer.state.values()))["exp_avg"].device == next(model.parameters()).device
model.eval()
with torch.no_grad():
    losses.append(model(torch.ones(2, 10).to(DEVICE)).softmax(1).cpu().numpy().sum().item())
device = next(model.parameters()).device
