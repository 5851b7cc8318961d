"""Train a small residual network to tell textures apart. Plain PyTorch: it knows nothing of neaptide.

python examples/train_images.py --steps 40
"""

import argparse
import hashlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 8


def textures(count: int, size: int) -> TensorDataset:
    """Gratings at eight angles, of random width and place, in noise."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    angle = labels * torch.pi / CLASSES
    place, width = torch.rand(2, count, generator=generator)
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    along = columns * angle.cos()[:, None, None] + rows * angle.sin()[:, None, None]
    waves = torch.sin((8 + 8 * width)[:, None, None] * along + 6.28 * place[:, None, None])
    noise = torch.randn(count, 3, size, size, generator=generator)
    return TensorDataset(waves[:, None] + 0.8 * noise, labels)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(x + self.second_norm(self.second(inner)))


def network(channels: int, blocks: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1, bias=False),
        *(Block(channels) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, CLASSES),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=6)
    given = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network(given.channels, given.blocks).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(2)
    data = DataLoader(textures(2048, 32), given.batch, shuffle=True, drop_last=True, generator=order)

    step = 0
    while step < given.steps:
        for images, labels in data:
            images, labels = images.to(device), labels.to(device)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step} of {given.steps}, loss {loss.item():.4f}", flush=True)
            if step == given.steps:
                break

    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))
    print(f"final loss {loss.item():.6f}, parameters {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
