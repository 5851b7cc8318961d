"""Inception v3 (Szegedy et al., 2015) and Inception v4 (Szegedy et al., 2016), without auxiliary heads."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.branches import AVERAGE, HALVE, Convolution, Layer, Row, assemble, split
from neaptide.models.zoo import Recipe, Scale, family

ROW, COLUMN = (1, 7), (7, 1)
FORK: Layer = split((Convolution(384, (1, 3)),), (Convolution(384, (3, 1)),))
NARROW_FORK: Layer = split((Convolution(256, (1, 3)),), (Convolution(256, (3, 1)),))


def v3_square(pooled: int) -> Layer:
    """Figure 5: 5x5 done by two 3x3."""
    return split(
        (Convolution(64),),
        (Convolution(48), Convolution(64, 5)),
        (Convolution(64), Convolution(96, 3), Convolution(96, 3)),
        (AVERAGE, Convolution(pooled)),
    )


def v3_factored(inner: int) -> Layer:
    """Figure 6: 7x7 done by rows and columns."""
    return split(
        (Convolution(192),),
        (Convolution(inner), Convolution(inner, ROW), Convolution(192, COLUMN)),
        (
            Convolution(inner),
            Convolution(inner, COLUMN),
            Convolution(inner, ROW),
            Convolution(inner, COLUMN),
            Convolution(192, ROW),
        ),
        (AVERAGE, Convolution(192)),
    )


V3_STEM: Row = (
    Convolution(32, 3, 2, valid=True),
    Convolution(32, 3, valid=True),
    Convolution(64, 3),
    HALVE,
    Convolution(80),
    Convolution(192, 3, valid=True),
    HALVE,
)
V3_REDUCTION_A: Layer = split(
    (Convolution(384, 3, 2, valid=True),),
    (Convolution(64), Convolution(96, 3), Convolution(96, 3, 2, valid=True)),
    (HALVE,),
)
V3_REDUCTION_B: Layer = split(
    (Convolution(192), Convolution(320, 3, 2, valid=True)),
    (Convolution(192), Convolution(192, ROW), Convolution(192, COLUMN), Convolution(192, 3, 2, valid=True)),
    (HALVE,),
)
V3_EXPANDED: Layer = split(  # figure 7
    (Convolution(320),),
    (Convolution(384), FORK),
    (Convolution(448), Convolution(384, 3), FORK),
    (AVERAGE, Convolution(192)),
)

V4_STEM: Row = (
    Convolution(32, 3, 2, valid=True),
    Convolution(32, 3, valid=True),
    Convolution(64, 3),
    split((HALVE,), (Convolution(96, 3, 2, valid=True),)),
    split(
        (Convolution(64), Convolution(96, 3, valid=True)),
        (Convolution(64), Convolution(64, ROW), Convolution(64, COLUMN), Convolution(96, 3, valid=True)),
    ),
    split((Convolution(192, 3, 2, valid=True),), (HALVE,)),
)
V4_A: Layer = split(  # figure 4
    (AVERAGE, Convolution(96)),
    (Convolution(96),),
    (Convolution(64), Convolution(96, 3)),
    (Convolution(64), Convolution(96, 3), Convolution(96, 3)),
)
V4_REDUCTION_A: Layer = split(
    (HALVE,),
    (Convolution(384, 3, 2, valid=True),),
    (Convolution(192), Convolution(224, 3), Convolution(256, 3, 2, valid=True)),
)
V4_B: Layer = split(  # figure 5
    (AVERAGE, Convolution(128)),
    (Convolution(384),),
    (Convolution(192), Convolution(224, ROW), Convolution(256, COLUMN)),
    (
        Convolution(192),
        Convolution(192, ROW),
        Convolution(224, COLUMN),
        Convolution(224, ROW),
        Convolution(256, COLUMN),
    ),
)
V4_REDUCTION_B: Layer = split(
    (HALVE,),
    (Convolution(192), Convolution(192, 3, 2, valid=True)),
    (Convolution(256), Convolution(256, ROW), Convolution(320, COLUMN), Convolution(320, 3, 2, valid=True)),
)
V4_C: Layer = split(  # figure 6
    (AVERAGE, Convolution(256)),
    (Convolution(256),),
    (Convolution(384), NARROW_FORK),
    (Convolution(384), Convolution(448, (1, 3)), Convolution(512, (3, 1)), NARROW_FORK),
)


def v3(repeats: tuple[int, int, int]) -> Row:
    """The whole of v3 with the first few cells of each stage."""
    squares, factored, expanded = repeats
    return (
        *V3_STEM,
        *(v3_square(pooled) for pooled in (32, 64, 64)[:squares]),
        V3_REDUCTION_A,
        *(v3_factored(inner) for inner in (128, 160, 160, 192)[:factored]),
        V3_REDUCTION_B,
        *(V3_EXPANDED,) * expanded,
    )


def v4(repeats: tuple[int, int, int]) -> Row:
    """The whole of v4 with this many cells in each stage."""
    first, middle, last = repeats
    return (*V4_STEM, *(V4_A,) * first, V4_REDUCTION_A, *(V4_B,) * middle, V4_REDUCTION_B, *(V4_C,) * last)


class Inception(nn.Module):
    """A table of layers and one linear layer."""

    def __init__(self, row: Row, dropout: float, shrink: int, classes: int) -> None:
        super().__init__()
        self.features, channels = assemble(row, 3, shrink)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


@family("inception3", "inception4")
def inception(name: str, scale: Scale) -> Recipe:
    paper = scale == "paper"
    if name == "inception3":
        row, dropout = v3((3, 4, 2) if paper else (1, 2, 1)), 0.5
    else:
        row, dropout = v4((4, 7, 3) if paper else (2, 3, 1)), 0.2
    # 107 is the smallest image of which the reductions leave more than one pixel.
    shrink, image, classes = (1, 299, 1000) if paper else (8, 107, 10)
    return Recipe(
        module=partial(Inception, row, dropout, shrink, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=50 if paper else 4,
    )
