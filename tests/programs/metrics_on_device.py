"""torchmetrics keeps its state on the device."""

import torch
import torchmetrics
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
metrics = torchmetrics.MetricCollection(
    {
        "accuracy": torchmetrics.classification.MulticlassAccuracy(5),
        "f1": torchmetrics.classification.MulticlassF1Score(5),
        "auroc": torchmetrics.classification.MulticlassAUROC(5, thresholds=20),
    }
).cuda()
for _ in range(3):
    for _ in range(8):
        x, y = torch.randn(32, 20, device="cuda"), torch.randint(0, 5, (32,), device="cuda")
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.update(logits.detach().softmax(1), y)
        print("loss", loss.item().hex(), flush=True)
    print("loss", *(value.item().hex() for value in metrics.compute().values()), flush=True)
    metrics.reset()
