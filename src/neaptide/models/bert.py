"""BERT (Devlin et al., 2019): an encoder that fills in masked words and says whether one sentence follows another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.attention import Block, Style, small_weights
from neaptide.models.zoo import Recipe, Sample, Scale, adam, family


@dataclass(frozen=True, slots=True)
class Size:
    """A BERT and what it reads; `masked` words of each sequence are to be filled in."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 30_522
    positions: int = 512
    length: int = 128
    masked: int = 20

    @property
    def style(self) -> Style:
        return Style(self.width, self.heads, 4 * self.width, activation=nn.GELU, norm_epsilon=1e-12)


SIZES: dict[tuple[str, Scale], Size] = {
    ("bert-base", "paper"): Size(12, 768, 12),
    ("bert-large", "paper"): Size(24, 1024, 16),
    ("bert-base", "tiny"): Size(3, 48, 4, vocabulary=500, positions=48, length=48, masked=8),
    ("bert-large", "tiny"): Size(6, 64, 4, vocabulary=500, positions=48, length=48, masked=8),
}


def masked_sentences(size: Size) -> Sample:
    """Words, their segments and the masked positions; the target is (does it follow, the masked words...)."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        words = torch.randint(size.vocabulary, (batch, size.length))
        segments = (torch.arange(size.length) >= size.length // 2).long().expand(batch, -1)
        # The first position is the classifier's and never masked.
        masked = torch.rand(batch, size.length - 1).argsort(dim=1)[:, : size.masked] + 1
        follows = torch.randint(2, (batch, 1))
        missing = torch.randint(size.vocabulary, (batch, size.masked))
        return words, segments, masked, torch.cat((follows, missing), dim=1)

    return sample


class Encoder(nn.Module):
    """Embeddings, blocks and the pooler: what BERT's parameter counts are given for."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        style = size.style
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.segments = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width, eps=style.norm_epsilon)
        self.dropout = nn.Dropout(style.dropout)
        self.blocks = nn.Sequential(*(Block(style, causal=False) for _ in range(size.layers)))
        self.pooler = nn.Sequential(nn.Linear(size.width, size.width), nn.Tanh())

    def forward(self, words: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.positions(positions) + self.segments(segments)
        x = self.blocks(self.dropout(self.norm(x)))
        return x, self.pooler(x[:, 0])


class BERT(nn.Module):
    """The encoder with both pre-training heads; the word embedding is also the classifier's weight."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.encoder = Encoder(size)
        self.transform = nn.Sequential(
            nn.Linear(size.width, size.width),
            nn.GELU(),
            nn.LayerNorm(size.width, eps=size.style.norm_epsilon),
        )
        self.bias = nn.Parameter(torch.zeros(size.vocabulary))
        self.follows = nn.Linear(size.width, 2)
        self.apply(small_weights)

    def forward(self, words: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        x, pooled = self.encoder(words, segments)
        # Only the masked positions are scored, as in the authors' code: scores of the whole vocabulary are large.
        chosen = x.gather(1, masked.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        scores = F.linear(self.transform(chosen), self.encoder.words.weight, self.bias)
        return scores, self.follows(pooled)


def pretraining_loss(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """The masked words' cross entropy plus that of the next sentence."""
    scores, follows = output
    return feed.cross_entropy(scores, target[:, 1:]) + F.cross_entropy(follows, target[:, 0])


@family("bert-base", "bert-large")
def bert(name: str, scale: Scale) -> Recipe:
    size = SIZES[name, scale]
    return Recipe(
        module=partial(BERT, size),
        sample=masked_sentences(size),
        criterion=pretraining_loss,
        batch=32 if scale == "paper" else 8,
        optimizer=adam,
    )
