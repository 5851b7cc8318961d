"""Dies by an error of its own in the middle of an iteration."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    loss = model(torch.ones(2, 8, device="cuda")).square().sum()
    optimizer.zero_grad()
    if step == 15:
        raise RuntimeError("no more data")
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
