"""What DataParallel does: a thread for each part of the batch, the gradients summed, one optimizer."""

import torch
from torch import nn
from torch.nn.parallel import parallel_apply

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(20):
    x, y = torch.randn(3, 32, 64, device="cuda"), torch.randint(0, 8, (3, 32), device="cuda")
    outputs = parallel_apply([model] * 3, [(part,) for part in x], devices=[0] * 3)
    loss = sum(nn.functional.cross_entropy(output, part) for output, part in zip(outputs, y, strict=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
