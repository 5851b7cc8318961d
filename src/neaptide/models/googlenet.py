"""GoogLeNet (Szegedy et al., 2014, table 1): Inception v1, with local response norms and no batch norm.

The two auxiliary heads are left out, as in the benchmark that Salus ran.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.branches import Convolution, Layer, Row, assemble, split
from neaptide.models.zoo import Recipe, Scale, family

HALVE = partial(nn.MaxPool2d, 3, stride=2, padding=1)
KEEP = partial(nn.MaxPool2d, 3, stride=1, padding=1)
NORM = partial(nn.LocalResponseNorm, 5)


def inception(direct: int, *reduced: int) -> Layer:
    """One row of table 1: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection."""
    reduce3, out3, reduce5, out5, pooled = reduced
    return split(
        (Convolution(direct),),
        (Convolution(reduce3), Convolution(out3, 3)),
        (Convolution(reduce5), Convolution(out5, 5)),
        (KEEP, Convolution(pooled)),
    )


STEM: Row = (Convolution(64, 7, 2), HALVE, NORM, Convolution(64), Convolution(192, 3), NORM, HALVE)
STAGES: tuple[Row, ...] = (
    (inception(64, 96, 128, 16, 32, 32), inception(128, 128, 192, 32, 96, 64)),
    (
        inception(192, 96, 208, 16, 48, 64),
        inception(160, 112, 224, 24, 64, 64),
        inception(128, 128, 256, 24, 64, 64),
        inception(112, 144, 288, 32, 64, 64),
        inception(256, 160, 320, 32, 128, 128),
    ),
    (inception(256, 160, 320, 32, 128, 128), inception(384, 192, 384, 48, 128, 128)),
)


class GoogLeNet(nn.Module):
    """A stem, nine Inception modules in three stages, and one linear layer."""

    def __init__(self, shrink: int, classes: int) -> None:
        super().__init__()
        first, middle, last = STAGES
        row = (*STEM, *first, HALVE, *middle, HALVE, *last)
        self.features, channels = assemble(row, 3, shrink, normalise=False)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.4), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


@family("googlenet")
def googlenet(_name: str, scale: Scale) -> Recipe:
    shrink, image, classes = (1, 224, 1000) if scale == "paper" else (8, 64, 10)
    return Recipe(
        module=partial(GoogLeNet, shrink, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=50 if scale == "paper" else 8,
    )
