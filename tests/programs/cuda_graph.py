"""Captures a CUDA graph."""

import torch

x = torch.zeros(64, 64, device="cuda")
w = torch.randn(64, 64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x @ w
x.copy_(torch.ones_like(x))
graph.replay()
print("loss", y.sum().item().hex())
