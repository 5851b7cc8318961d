"""Sub-pixel super-resolution (Shi et al., 2016), with the layers of PyTorch's example that Salus ran."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models.zoo import Recipe, Sample, Scale, adam, family

FACTOR = 3


class SuperResolution(nn.Module):
    """Four convolutions on the small image; the last one's channels become the large image's pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width // 2, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width // 2, FACTOR**2, 3, padding=1),
            nn.PixelShuffle(FACTOR),
        )

    def forward(self, images: Tensor) -> Tensor:
        enlarged: Tensor = self.layers(images)
        return enlarged


def pairs(size: int) -> Sample:
    """Square luminance images, small and `FACTOR` times larger."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        large = size * FACTOR
        return torch.rand(batch, 1, size, size), torch.rand(batch, 1, large, large)

    return sample


@family("superres")
def superres(_name: str, scale: Scale) -> Recipe:
    # The example crops to 255, the largest multiple of 3 within 256.
    width, size = (64, 85) if scale == "paper" else (8, 24)
    return Recipe(
        module=partial(SuperResolution, width),
        sample=pairs(size),
        criterion=F.mse_loss,
        batch=64 if scale == "paper" else 8,
        optimizer=adam,
    )
