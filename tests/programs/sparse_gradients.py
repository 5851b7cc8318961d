"""An embedding with sparse gradients, which the software GPU does not have."""

import torch

table = torch.nn.Embedding(1000, 16, sparse=True).cuda()
optimizer = torch.optim.SparseAdam(table.parameters())
for _ in range(10):
    loss = table(torch.randint(0, 1000, (32,)).cuda()).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
