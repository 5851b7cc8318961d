"""Averages of the weights, SWA and EMA, by torch.optim.swa_utils, with batch norms set anew."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1)).cuda()
swa, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = SWALR(optimizer, swa_lr=0.01)
data = [torch.randn(32, 32) for _ in range(8)]
for epoch in range(3):
    for x in data:
        x = x.cuda()
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        print("loss", loss.item().hex(), flush=True)
    if epoch:
        swa.update_parameters(model)
        scheduler.step()
update_bn(data, swa, device="cuda")
for averaged in (swa, ema):
    averaged.eval()
    with torch.no_grad():
        print("loss", averaged(data[0].cuda()).sum().item().hex())
