"""The simplest script; other programs start it."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
options = parser.parse_args()
torch.manual_seed(int(os.environ.get("SEED", "0")))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
for _ in range(20):
    x = torch.randn(64, 32, device=device)
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
print("device", device.type)
