"""OverFeat's fast model (Sermanet et al., 2013, table 1): most of its weights are in one layer."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.branches import Convolution, Row, assemble
from neaptide.models.zoo import Recipe, Scale, family

POOL = partial(nn.MaxPool2d, 2)
FEATURES: Row = (
    Convolution(96, 11, stride=4, valid=True),
    POOL,
    Convolution(256, 5, valid=True),
    POOL,
    Convolution(512, 3),
    Convolution(1024, 3),
    Convolution(1024, 3),
    POOL,
)


class OverFeat(nn.Module):
    """Five convolutions and three linear layers."""

    def __init__(self, shrink: int, side: int, classes: int) -> None:
        super().__init__()
        self.features, channels = assemble(FEATURES, 3, shrink, normalise=False)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * side * side, 3072 // shrink),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(3072 // shrink, 4096 // shrink),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096 // shrink, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(images))
        return scores


@family("overfeat")
def overfeat(_name: str, scale: Scale) -> Recipe:
    # `side` is what the strides leave of the image in front of the classifier.
    shrink, image, side, classes = (1, 231, 6, 1000) if scale == "paper" else (8, 103, 2, 10)
    return Recipe(
        module=partial(OverFeat, shrink, side, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=50 if scale == "paper" else 4,
    )
