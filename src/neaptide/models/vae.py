"""Variational auto-encoder (Kingma and Welling, 2013): the fully connected one of PyTorch's examples."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models.zoo import Recipe, Sample, Scale, adam, family

Guess = tuple[Tensor, Tensor, Tensor]


class VAE(nn.Module):
    """Encodes pixels as a Gaussian and decodes a draw from it; gives decoded pixels, mean, log variance."""

    def __init__(self, pixels: int, hidden: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, code)
        self.log_variance = nn.Linear(hidden, code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, pixels), nn.Sigmoid())

    def forward(self, images: Tensor) -> Guess:
        hidden = self.encoder(images)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        deviation = torch.exp(0.5 * log_variance)
        code = mean + deviation * torch.randn_like(deviation)
        return self.decoder(code), mean, log_variance


def evidence(guess: Guess, images: Tensor) -> Tensor:
    """The negative evidence lower bound, summed over the batch (equation 10)."""
    decoded, mean, log_variance = guess
    reconstruction = F.binary_cross_entropy(decoded, images.flatten(1), reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.square() - log_variance.exp())
    return reconstruction + divergence


def digits(size: int) -> Sample:
    """Square grey images, each its own target."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        images = torch.rand(batch, 1, size, size)
        return images, images

    return sample


@family("vae")
def vae(_name: str, scale: Scale) -> Recipe:
    size, hidden, code = (28, 400, 20) if scale == "paper" else (14, 50, 4)
    return Recipe(
        module=partial(VAE, size * size, hidden, code),
        sample=digits(size),
        criterion=evidence,
        batch=128 if scale == "paper" else 32,
        optimizer=adam,
    )
