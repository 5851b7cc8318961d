"""Inference with a Transformer (Vaswani et al., 2017, section 6.1): beam search, with cached keys and values.

Every op is its own kernel, as in the TensorFlow of Herald's time: no fused attention, normalisation or bias.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide import models
from neaptide.capture.estimated import estimate
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.models.attention import Attention, Block
from neaptide.models.transformer import Transformer, sinusoids
from neaptide.reporting.terminal.progress import progress

BEAMS = 4  # as in the paper


def estimate_translation(name: str, batch: int, words: int, device: DeviceSpec) -> Trace:
    """The trace of one batch of sentences, each translated into `words` words."""

    def build() -> Translator:
        workload = models.build("transformer", batch)
        assert isinstance(workload.model, Transformer)
        return Translator(workload.model, workload.sample, batch, words)

    with progress(f"estimating {name}, batch {batch}") as on_progress:
        return estimate(build, device, name=name, batch=batch, on_progress=on_progress)


class Translator:
    """Translates one batch per call and returns the words of each sentence's best translation."""

    def __init__(self, model: Transformer, sample: models.zoo.Sample, batch: int, words: int) -> None:
        self._model, self._sample, self._batch, self._words = model.eval(), sample, batch, words
        self._positions = sinusoids(words, model.embedding.embedding_dim)

    @torch.no_grad()
    def __call__(self) -> Tensor:
        source = self._sample(self._batch)[0]
        memory = self._model.encoder(self._model.embed(source)).repeat_interleave(BEAMS, dim=0)
        decoder = [_Decoding(block, memory) for block in self._model.decoder if isinstance(block, Block)]
        said = source.new_zeros(memory.shape[0], 1)
        likelihood = memory.new_zeros(self._batch, BEAMS)
        likelihood[:, 1:] = -math.inf  # all beams start equal, so only one of them counts at first
        first = torch.arange(0, memory.shape[0], BEAMS).unsqueeze(1)
        for position in range(self._words):
            x = self._model.embedding(said[:, -1:]) * math.sqrt(memory.shape[-1]) + self._positions[position]
            for block in decoder:
                x = block.step(x)
            scores = F.linear(x[:, 0], self._model.embedding.weight).log_softmax(dim=-1)
            ranked = (scores.view(self._batch, BEAMS, -1) + likelihood.unsqueeze(-1)).flatten(1)
            likelihood, best = ranked.topk(BEAMS)
            kept = (best // scores.shape[-1] + first).view(-1)
            said = torch.cat((said.index_select(0, kept), (best % scores.shape[-1]).view(-1, 1)), dim=1)
            for block in decoder:
                block.keep(kept)
        return said[::BEAMS, 1:]


class _Decoding:
    """A block of the decoder with its cached keys and values."""

    def __init__(self, block: Block, memory: Tensor) -> None:
        assert block.memory_attention is not None
        own, over, feed_forward = block.attention.branch, block.memory_attention.branch, block.feed_forward.branch
        assert isinstance(own, Attention)
        assert isinstance(over, Attention)
        assert isinstance(feed_forward, nn.Sequential)
        self._own, self._over, self._feed_forward = own, over, feed_forward
        self._norms = block.attention.norm, block.memory_attention.norm, block.feed_forward.norm
        self._memory = _split(over, _linear(over.key, memory)), _split(over, _linear(over.value, memory))
        self._past: tuple[Tensor, Tensor] | None = None

    def step(self, x: Tensor) -> Tensor:
        now = _split(self._own, _linear(self._own.key, x)), _split(self._own, _linear(self._own.value, x))
        if self._past is not None:
            now = torch.cat((self._past[0], now[0]), dim=2), torch.cat((self._past[1], now[1]), dim=2)
        self._past = now
        x = _normalise(self._norms[0], x + _attend(self._own, x, *now))
        x = _normalise(self._norms[1], x + _attend(self._over, x, *self._memory))
        first, activation, second = self._feed_forward
        assert isinstance(first, nn.Linear)
        assert isinstance(second, nn.Linear)
        return _normalise(self._norms[2], x + _linear(second, activation(_linear(first, x))))

    def keep(self, rows: Tensor) -> None:
        """Keep only these beams."""
        assert self._past is not None
        self._past = self._past[0].index_select(0, rows), self._past[1].index_select(0, rows)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return x @ layer.weight.T + layer.bias


def _split(attention: Attention, x: Tensor) -> Tensor:
    return x.view(x.shape[0], x.shape[1], attention.heads, -1).transpose(1, 2).contiguous()


def _attend(attention: Attention, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    queries = _split(attention, _linear(attention.query, x)) * keys.shape[-1] ** -0.5
    mixed = (queries @ keys.transpose(2, 3)).softmax(dim=-1) @ values
    return _linear(attention.output, mixed.transpose(1, 2).flatten(2))


def _normalise(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    spread = (centred * centred).mean(dim=-1, keepdim=True)
    return centred * (spread + norm.eps).rsqrt() * norm.weight + norm.bias
