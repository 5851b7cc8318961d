"""GPT-2 small (Radford et al., 2019): a decoder of twelve blocks with the normalisation first."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.attention import Block, Style, small_weights
from neaptide.models.zoo import Recipe, Scale, adam, family

gelu = partial(nn.GELU, approximate="tanh")


class GPT(nn.Module):
    """A language model; the word embedding is also the classifier's weight."""

    def __init__(self, vocabulary: int, length: int, layers: int, style: Style) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, style.width)
        self.positions = nn.Embedding(length, style.width)
        self.dropout = nn.Dropout(style.dropout)
        self.blocks = nn.Sequential(*(Block(style, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(style.width)
        self.apply(small_weights)

    def forward(self, words: Tensor) -> Tensor:
        positions = torch.arange(words.shape[1], device=words.device)
        x = self.blocks(self.dropout(self.words(words) + self.positions(positions)))
        return F.linear(self.norm(x), self.words.weight)


@family("gpt2")
def gpt(_name: str, scale: Scale) -> Recipe:
    if scale == "paper":
        vocabulary, length, layers, batch = 50_257, 1024, 12, 8
        style = Style(width=768, heads=12, hidden=3072, activation=gelu, norm_first=True)
    else:
        vocabulary, length, layers, batch = 500, 64, 4, 4
        style = Style(width=64, heads=4, hidden=256, activation=gelu, norm_first=True)
    return Recipe(
        module=partial(GPT, vocabulary, length, layers, style),
        sample=feed.tokens(length, vocabulary),
        criterion=feed.cross_entropy,
        batch=batch,
        optimizer=adam,
    )
