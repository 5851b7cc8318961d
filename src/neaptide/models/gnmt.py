"""GNMT (Wu et al., 2016) as MLPerf and NVIDIA train it: four LSTM layers on either side, shared embedding.

Theirs, where the paper has eight layers: attention sees what the first decoder layer gives at the same step, so
that each layer runs over the whole sequence at once; the context enters the other decoder layers only.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, adam, family

LAYERS = 4
FIRST_RESIDUAL = 2  # the third layer


class NormalisedAttention(nn.Module):
    """Bahdanau's additive attention, its score vector normalised to a learned length.

    It keeps a value per query, key and unit for the backward pass: the network's largest activation.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.direction = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.length = nn.Parameter(torch.full((1,), width**-0.5))

    def forward(self, queries: Tensor, memory: Tensor) -> Tensor:
        mixed = self.query(queries).unsqueeze(2) + self.key(memory).unsqueeze(1)
        score = self.direction * (self.length / self.direction.norm())
        weights = (mixed.tanh() @ score).softmax(dim=-1)
        context: Tensor = weights @ memory
        return context


class GNMT(nn.Module):
    """A bidirectional layer and three more encode; four decode, with attention over the source."""

    def __init__(self, vocabulary: int, width: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleList(
            [
                nn.LSTM(width, width, batch_first=True, bidirectional=True),
                nn.LSTM(2 * width, width, batch_first=True),
                *(nn.LSTM(width, width, batch_first=True) for _ in range(LAYERS - 2)),
            ]
        )
        self.decoder_entry = nn.LSTM(width, width, batch_first=True)
        self.attention = NormalisedAttention(width)
        self.decoder = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(LAYERS - 1))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, vocabulary)

    def encode(self, source: Tensor) -> Tensor:
        states: Tensor = self.embedding(source)
        for depth, layer in enumerate(self.encoder):
            output, _ = layer(self.dropout(states))
            states = states + output if depth >= FIRST_RESIDUAL else output
        return states

    def decode(self, previous: Tensor, memory: Tensor) -> Tensor:
        states: Tensor
        states, _ = self.decoder_entry(self.dropout(self.embedding(previous)))
        context = self.attention(states, memory)
        for depth, layer in enumerate(self.decoder, start=1):
            output, _ = layer(torch.cat((self.dropout(states), context), dim=-1))
            states = states + output if depth >= FIRST_RESIDUAL else output
        return states

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.decode(previous, self.encode(source)))
        return scores


@family("gnmt")
def gnmt(_name: str, scale: Scale) -> Recipe:
    # 32,317 word pieces padded to a multiple of eight; MLPerf trains on sentences of up to 50.
    vocabulary, width, length = (32_320, 1024, 50) if scale == "paper" else (200, 32, 16)
    return Recipe(
        module=partial(GNMT, vocabulary, width),
        sample=feed.sentence_pairs(length, vocabulary),
        criterion=feed.cross_entropy,
        batch=128 if scale == "paper" else 16,
        optimizer=adam,
    )
