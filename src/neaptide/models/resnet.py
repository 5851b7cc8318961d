"""ResNet (He et al., 2015) of any depth: the ImageNet ones, the CIFAR-10 ones and SuperNeurons' deep ones.

Which network a depth names:
- 18, 34, 50, 101, 152: the published ImageNet networks.
- 20, 32, 44, 56, 110: the published CIFAR-10 networks of 6n+2 layers, with parameter-free shortcuts.
- any other 3k+2 from 35 to 152: bottleneck blocks in stages of (3, 4, k-10, 3), the rule of 50 and 101.
- any 3k+2 above 152: bottleneck blocks in stages of (6, 32, k-44, 6), SuperNeurons' deep networks.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family

PUBLISHED = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 152: (3, 8, 36, 3)}
WITHOUT_BOTTLENECK = (18, 34)
CIFAR = (20, 32, 44, 56, 110)
SHALLOWEST, DEEPEST_PUBLISHED = 35, 152


def stages(depth: int) -> tuple[int, ...] | None:
    """Blocks in each stage of the network of this depth, or None if there is no such network."""
    if depth in CIFAR:
        return ((depth - 2) // 6,) * 3
    if depth in PUBLISHED:
        return PUBLISHED[depth]
    blocks, rest = divmod(depth - 2, 3)
    if rest or depth < SHALLOWEST:
        return None
    return (3, 4, blocks - 10, 3) if depth <= DEEPEST_PUBLISHED else (6, 32, blocks - 44, 6)


class Block(nn.Module):
    """A residual block: two 3x3 convolutions, or the bottleneck of 1x1, 3x3 and 1x1.

    With `project` a changed shape is brought across by a 1x1 convolution (option B), without it by
    subsampling and zero channels (option A).
    """

    def __init__(self, channels: int, inner: int, stride: int, bottleneck: bool, project: bool = True) -> None:
        super().__init__()
        self.out = inner * 4 if bottleneck else inner
        # (in, out, kernel, stride) of each convolution
        if bottleneck:
            shapes = [(channels, inner, 1, 1), (inner, inner, 3, stride), (inner, self.out, 1, 1)]
        else:
            shapes = [(channels, inner, 3, stride), (inner, inner, 3, 1)]
        layers: list[nn.Module] = []
        for before, after, kernel, step in shapes:
            layers.append(nn.Conv2d(before, after, kernel, step, padding=kernel // 2, bias=False))
            layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.residual = nn.Sequential(*layers[:-1])  # the last ReLU follows the sum
        self.shortcut: nn.Module = nn.Identity()
        if channels != self.out or stride != 1:
            self.shortcut = (
                nn.Sequential(nn.Conv2d(channels, self.out, 1, stride, bias=False), nn.BatchNorm2d(self.out))
                if project
                else Subsample(stride, self.out - channels)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.relu(self.residual(images) + self.shortcut(images))
        return result


class Subsample(nn.Module):
    """Every stride-th pixel, and zeros for the channels that are new."""

    def __init__(self, stride: int, new_channels: int) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, new_channels

    def forward(self, images: Tensor) -> Tensor:
        kept = images[:, :, :: self.stride, :: self.stride]
        return F.pad(kept, (0, 0, 0, 0, 0, self.new_channels))


class ResNet(nn.Module):
    """A stem, stages of residual blocks, each at half the image and twice the channels, and a linear layer."""

    def __init__(self, depth: int, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        cifar = depth in CIFAR
        kernel, stride = (3, 1) if cifar else (7, 2)
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        if not cifar:
            self.stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        layers: list[nn.Module] = []
        channels = width
        bottleneck = not cifar and depth not in WITHOUT_BOTTLENECK
        for stage, repeats in enumerate(blocks):
            for position in range(repeats):
                stride = 2 if stage > 0 and position == 0 else 1
                block = Block(channels, width * 2**stage, stride, bottleneck, project=not cifar)
                channels = block.out
                layers.append(block)
        self.blocks = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.blocks(self.stem(images))))
        return scores


@family("resnet18", "resnet34", "resnet50", "resnet101", "resnet110", "resnet152", pattern=r"resnet[1-9]\d*")
def resnet(name: str, scale: Scale) -> Recipe:
    depth = int(name.removeprefix("resnet"))
    blocks = stages(depth)
    if blocks is None:
        legal = "a depth is 18, 20, 32, 34 or, from 35 on, any 3k+2"
        raise ValueError(f"no network is {name}: {legal}; the nearest is {_nearest(depth)}")
    if depth in CIFAR:
        width, image, classes, batch = (16, 32, 10, 128) if scale == "paper" else (4, 32, 10, 8)
    elif depth <= DEEPEST_PUBLISHED:
        width, image, classes, batch = (64, 224, 1000, 50) if scale == "paper" else (8, 64, 10, 8)
    else:
        width, image, classes, batch = (64, 224, 1000, 16) if scale == "paper" else (4, 64, 10, 4)
    if scale == "tiny":
        blocks = tuple(-(-repeats // 4) for repeats in blocks)
    return Recipe(
        module=partial(ResNet, depth, blocks, width, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=batch,
    )


def _nearest(depth: int) -> str:
    """The nearest networks below and above an impossible depth."""
    below = next((f"resnet{near} or " for near in range(depth, 0, -1) if stages(near)), "")
    return below + next(f"resnet{near}" for near in count(depth) if stages(near))
