"""VGG (Simonyan and Zisserman, 2014): stacks of 3x3 convolutions, then three large linear layers."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family

# Convolutions per stage; a pooling layer halves the image after each stage.
STAGES = {"vgg11": (1, 1, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """Five stages of convolutions and a classifier."""

    def __init__(self, stages: tuple[int, ...], width: int, hidden: int, image: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage, convolutions in enumerate(stages):
            out = width * min(2**stage, 8)
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
                channels = out
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        side = image // 2 ** len(stages)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * side * side, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(images))
        return scores


@family(*STAGES)
def vgg(name: str, scale: Scale) -> Recipe:
    width, hidden, image, classes = (64, 4096, 224, 1000) if scale == "paper" else (8, 64, 32, 10)
    return Recipe(
        module=partial(VGG, STAGES[name], width, hidden, image, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=64 if scale == "paper" else 8,
    )
