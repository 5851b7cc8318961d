"""A graph network: messages are added up by scatter, over graphs of different sizes."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.message, self.update = nn.Linear(2 * inside, outside), nn.Linear(inside + outside, outside)

    def forward(self, x, edges):
        sender, receiver = edges
        messages = torch.relu(self.message(torch.cat((x[sender], x[receiver]), 1)))
        gathered = torch.zeros(len(x), messages.shape[1], device=x.device)
        gathered = gathered.scatter_add(0, receiver[:, None].expand_as(messages), messages)
        degree = torch.zeros(len(x), device=x.device).index_add(0, receiver, torch.ones_like(receiver, dtype=x.dtype))
        return torch.relu(self.update(torch.cat((x, gathered / degree.clamp(min=1)[:, None]), 1)))


torch.manual_seed(0)
one, two, head = Layer(16, 32).cuda(), Layer(32, 32).cuda(), nn.Linear(32, 4).cuda()
optimizer = torch.optim.Adam([*one.parameters(), *two.parameters(), *head.parameters()], lr=1e-2)
for _ in range(20):
    nodes = int(torch.randint(50, 200, ()))
    x, edges = torch.randn(nodes, 16).cuda(), torch.randint(0, nodes, (2, 4 * nodes)).cuda()
    pooled = head(two(one(x, edges), edges)).amax(0)
    loss = nn.functional.cross_entropy(pooled[None], torch.tensor([nodes % 4]).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
