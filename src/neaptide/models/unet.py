"""U-Net (Ronneberger et al., 2015): a contracting and an expanding path, joined level by level.

Convolutions are unpadded as in the paper, so a 572x572 image gives a 388x388 map and joins are cropped.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models.zoo import Recipe, Sample, Scale, family

CLASSES = 2


def _twice(channels: int, out: int) -> nn.Sequential:
    layers = [nn.Conv2d(channels, out, 3), nn.ReLU(inplace=True)]
    layers += [nn.Conv2d(out, out, 3), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """`levels` levels down and up; each level doubles the channels and halves the image."""

    def __init__(self, levels: int, width: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(_twice(before, after) for before, after in zip([1, *widths], widths, strict=False))
        self.pool = nn.MaxPool2d(2)
        rising = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, here, 2, stride=2) for below, here in rising)
        self.join = nn.ModuleList(_twice(below, here) for below, here in rising)
        self.classifier = nn.Conv2d(width, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        tensor = self.down[0](images)
        skipped = []
        for stage in list(self.down)[1:]:
            skipped.append(tensor)
            tensor = stage(self.pool(tensor))
        for up, join in zip(self.up, self.join, strict=True):
            risen, skip = up(tensor), skipped.pop()
            margin = (risen.shape[-1] - skip.shape[-1]) // 2
            cropped = F.pad(skip, (margin, margin, margin, margin))
            tensor = join(torch.cat([cropped, risen], dim=1))
        scores: Tensor = self.classifier(tensor)
        return scores


def segments(size: int, out: int) -> Sample:
    """Square grey images with a class for each pixel of the output map."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        return torch.rand(batch, 1, size, size), torch.randint(CLASSES, (batch, out, out))

    return sample


@family("unet")
def unet(_name: str, scale: Scale) -> Recipe:
    levels, width, image, out = (4, 64, 572, 388) if scale == "paper" else (3, 4, 124, 36)
    return Recipe(
        module=partial(UNet, levels, width),
        sample=segments(image, out),
        criterion=F.cross_entropy,
        batch=1 if scale == "paper" else 2,
    )
