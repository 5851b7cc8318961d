"""python -m package trains."""

from package.model import make

import torch  # isort: skip

torch.manual_seed(0)
model = make().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(24):
    x = torch.randn(64, 32, device="cuda")
    loss = (model(x) - x.sum(1, keepdim=True)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
