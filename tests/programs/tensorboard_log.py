"""Writes losses, histograms and the graph to TensorBoard."""

import tempfile

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    writer.add_graph(model, torch.ones(4, 32).cuda())
    for step in range(20):
        x = torch.randn(64, 32).cuda()
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        for name, parameter in model.named_parameters():
            writer.add_histogram(name, parameter, step)
        print("loss", loss.item().hex(), flush=True)
