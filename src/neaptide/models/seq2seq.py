"""Sequence to sequence (Sutskever et al., 2014) in the sizes of Salus (Yu and Chowdhury, 2020).

Salus reports 22, 80 and 257 MB of persistent memory: Zaremba's small, medium and large models. An encoder and
a decoder of one LSTM layer each, with one embedding for both, have just as many parameters as his two layers.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.rnnlm import SIZES, Size
from neaptide.models.zoo import Recipe, Scale, family, plain_sgd


class Seq2Seq(nn.Module):
    """An LSTM reads the source; a second one starts from its last state and writes the translation."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.units)
        self.encoder = nn.LSTM(size.units, size.units, batch_first=True)
        self.decoder = nn.LSTM(size.units, size.units, batch_first=True)
        self.dropout = nn.Dropout(size.dropout)
        self.classifier = nn.Linear(size.units, size.vocabulary)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        _, meaning = self.encoder(self.dropout(self.embedding(source)))
        states, _ = self.decoder(self.dropout(self.embedding(previous)), meaning)
        scores: Tensor = self.classifier(self.dropout(states))
        return scores


@family("seq2seq-small", "seq2seq-medium", "seq2seq-large")
def seq2seq(name: str, scale: Scale) -> Recipe:
    size = SIZES[name.removeprefix("seq2seq-"), scale]
    return Recipe(
        module=partial(Seq2Seq, size),
        sample=feed.sentence_pairs(size.steps, size.vocabulary),
        criterion=feed.cross_entropy,
        batch=20,
        optimizer=plain_sgd,
    )
