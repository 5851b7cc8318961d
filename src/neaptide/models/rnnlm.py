"""RNNLM (Zaremba et al., 2014): a language model of LSTM layers, two in the paper, on the Penn Treebank.

Every batch starts from a zero state; the paper carries the state over, which costs no memory in an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family, plain_sgd


@dataclass(frozen=True, slots=True)
class Size:
    """One of Zaremba's models: units per layer, steps unrolled, dropout on the non-recurrent connections."""

    units: int
    steps: int
    dropout: float
    vocabulary: int
    layers: int = 2


SIZES: dict[tuple[str, Scale], Size] = {
    ("small", "paper"): Size(200, 20, 0.0, 10_000),
    ("medium", "paper"): Size(650, 35, 0.5, 10_000),
    ("large", "paper"): Size(1500, 35, 0.65, 10_000),
    ("small", "tiny"): Size(24, 12, 0.0, 200),
    ("medium", "tiny"): Size(48, 20, 0.5, 200),
    ("large", "tiny"): Size(96, 20, 0.65, 200),
}


class RNNLM(nn.Module):
    """Embedding, LSTM layers, and a score for each word of the vocabulary."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.units)
        self.lstm = nn.LSTM(size.units, size.units, num_layers=size.layers, dropout=size.dropout, batch_first=True)
        self.dropout = nn.Dropout(size.dropout)
        self.classifier = nn.Linear(size.units, size.vocabulary)

    def forward(self, words: Tensor) -> Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(words)))
        scores: Tensor = self.classifier(self.dropout(states))
        return scores


@family("rnnlm-small", "rnnlm-medium", "rnnlm-large")
def rnnlm(name: str, scale: Scale) -> Recipe:
    size = SIZES[name.removeprefix("rnnlm-"), scale]
    return Recipe(
        module=partial(RNNLM, size),
        sample=feed.tokens(size.steps, size.vocabulary),
        criterion=feed.cross_entropy,
        batch=20,
        optimizer=plain_sgd,
    )
