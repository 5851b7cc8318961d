"""A teacher without gradients teaches a student in every step."""

import torch
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).cuda().eval()
student = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).cuda()
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
for _ in range(24):
    x = torch.randn(128, 64, device="cuda")
    with torch.no_grad():
        target = teacher(x).div(2).softmax(1)
    loss = nn.functional.kl_div(student(x).div(2).log_softmax(1), target, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
