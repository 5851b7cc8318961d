"""pytorch-metric-learning: a miner looks for hard triplets on the device."""

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 16)).cuda()
miner, loss_of = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20):
    x, y = torch.randn(48, 32).cuda(), torch.randint(0, 6, (48,)).cuda()
    embedded = model(x)
    loss = loss_of(embedded, y, miner(embedded, y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
