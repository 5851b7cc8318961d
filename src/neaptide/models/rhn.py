"""Recurrent Highway Network (Zilly et al., 2017): a language model with ten highway layers per step."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family, plain_sgd

# The paper's Penn Treebank rates. A mask is drawn once per sequence and holds for all steps and depths.
WORD_DROPOUT = 0.25
INPUT_DROPOUT = 0.75
STATE_DROPOUT = 0.25
OUTPUT_DROPOUT = 0.75


class RHN(nn.Module):
    """Word scores from a recurrent highway layer; the embedding is also the classifier's weight."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        self.input = nn.Linear(width, 2 * width, bias=False)
        layers = [nn.Linear(width, 2 * width) for _ in range(depth)]
        self.recurrent = nn.ModuleList(layers)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.04, 0.04)
        for layer in layers:
            # A closed transform gate at the start: the state passes through all depths.
            nn.init.constant_(layer.bias[width:], -2.0)

    def forward(self, words: Tensor) -> Tensor:
        batch, length = words.shape
        embedded = self.embedding(words) * self._mask(WORD_DROPOUT, batch, length, 1)
        driven = self.input(embedded * self._mask(INPUT_DROPOUT, batch, 1, self.width))
        state_mask = self._mask(STATE_DROPOUT, batch, self.width)
        state = self.bias.new_zeros(batch, self.width)
        states = []
        for drive in driven.unbind(dim=1):
            state = self._step(state, drive, state_mask)
            states.append(state)
        output = torch.stack(states, dim=1) * self._mask(OUTPUT_DROPOUT, batch, 1, self.width)
        return F.linear(output, self.embedding.weight, self.bias)

    def _step(self, state: Tensor, drive: Tensor, state_mask: Tensor) -> Tensor:
        """One word through all depths, the carry gate coupled to the transform gate: c = 1 - t."""
        for depth, layer in enumerate(self.recurrent):
            mixed = layer(state * state_mask)
            candidate, transform = (mixed + drive if depth == 0 else mixed).chunk(2, dim=-1)
            state = state + (candidate.tanh() - state) * transform.sigmoid()
        return state

    def _mask(self, rate: float, *shape: int) -> Tensor:
        return F.dropout(self.bias.new_ones(shape), rate, self.training)


@family("rhn")
def rhn(_name: str, scale: Scale) -> Recipe:
    vocabulary, width, depth, steps = (10_000, 830, 10, 35) if scale == "paper" else (200, 48, 4, 12)
    return Recipe(
        module=partial(RHN, vocabulary, width, depth),
        sample=feed.tokens(steps, vocabulary),
        criterion=feed.cross_entropy,
        batch=20,
        optimizer=plain_sgd,
    )
