"""Transformer, base (Vaswani et al., 2017): attention only, six layers to encode and six to decode."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.attention import Block, Style
from neaptide.models.zoo import Recipe, Scale, adam, family


def sinusoids(length: int, width: int) -> Tensor:
    """Section 3.5: each position as sines and cosines of wavelengths from 2 pi to 10,000 times that."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


class Transformer(nn.Module):
    """An encoder and a decoder; source, translation and classifier share one embedding."""

    positions: Tensor

    def __init__(self, vocabulary: int, length: int, layers: int, style: Style) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, style.width)
        nn.init.normal_(self.embedding.weight, std=style.width**-0.5)
        self.register_buffer("positions", sinusoids(length, style.width), persistent=False)
        self.dropout = nn.Dropout(style.dropout)
        self.encoder = nn.Sequential(*(Block(style, causal=False) for _ in range(layers)))
        self.decoder = nn.ModuleList(Block(style, causal=True, over_memory=True) for _ in range(layers))

    def embed(self, words: Tensor) -> Tensor:
        scaled = self.embedding(words) * math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.dropout(scaled + self.positions[: words.shape[1]])
        return embedded

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        memory = self.encoder(self.embed(source))
        x = self.embed(previous)
        for block in self.decoder:
            x = block(x, memory)
        return F.linear(x, self.embedding.weight)


@family("transformer")
def transformer(_name: str, scale: Scale) -> Recipe:
    # A batch of the paper is 25,000 tokens on eight GPUs: 3,125 each, here 48 sentences of 64.
    if scale == "paper":
        vocabulary, length, layers, batch = 37_000, 64, 6, 48
        style = Style(width=512, heads=8, hidden=2048, activation=nn.ReLU, attention_dropout=0.0)
    else:
        vocabulary, length, layers, batch = 200, 32, 3, 8
        style = Style(width=64, heads=4, hidden=256, activation=nn.ReLU, attention_dropout=0.0)
    return Recipe(
        module=partial(Transformer, vocabulary, length, layers, style),
        sample=feed.sentence_pairs(length, vocabulary),
        criterion=feed.cross_entropy,
        batch=batch,
        optimizer=adam,
    )
