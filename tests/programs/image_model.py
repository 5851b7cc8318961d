"""A small ResNet in channels_last with label smoothing and mixup, in the manner of timm's script."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.two = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.two(self.one(x)))


torch.manual_seed(0)
model = nn.Sequential(
    *(nn.Conv2d(3, 32, 3, padding=1), Block(32), nn.MaxPool2d(2), Block(32), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    *(nn.Dropout(0.1), nn.Linear(32, 10)),
).to("cuda", memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=16)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for _ in range(16):
    x = torch.randn(16, 3, 32, 32).cuda().contiguous(memory_format=torch.channels_last)
    y = nn.functional.one_hot(torch.randint(0, 10, (16,)), 10).float().cuda()
    x, y = 0.8 * x + 0.2 * x.flip(0), 0.8 * y + 0.2 * y.flip(0)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    print("loss", loss.item().hex(), flush=True)
