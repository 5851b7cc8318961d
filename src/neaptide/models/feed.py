"""Random batches and the losses that several families share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from neaptide.models.zoo import Sample


def images(size: int, classes: int, channels: int = 3) -> Sample:
    """Square images with a class each."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        return torch.rand(batch, channels, size, size), torch.randint(classes, (batch,))

    return sample


def tokens(length: int, vocabulary: int) -> Sample:
    """Sequences of word ids; the target is a word for each position."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        return (
            torch.randint(vocabulary, (batch, length)),
            torch.randint(vocabulary, (batch, length)),
        )

    return sample


def sentence_pairs(length: int, vocabulary: int) -> Sample:
    """Source words, the translation's words so far, and as target the word that follows each of them."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        source = torch.randint(vocabulary, (batch, length))
        translation = torch.randint(vocabulary, (batch, length + 1))
        return source, translation[:, :-1], translation[:, 1:]

    return sample


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy with the classes in the last dimension of `output`."""
    return F.cross_entropy(output.flatten(0, -2), target.flatten())
