"""The attention block (Vaswani et al., 2017) that transformer, bert and gpt are stacks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Style:
    """The sizes that all blocks of one network share."""

    width: int
    heads: int
    hidden: int
    activation: Callable[[], nn.Module]
    norm_first: bool = False
    norm_epsilon: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.1


class Attention(nn.Module):
    """Multi-head attention, over the sequence itself or over a memory."""

    def __init__(self, style: Style, causal: bool) -> None:
        super().__init__()
        self.heads = style.heads
        self.causal = causal
        self.dropout = style.attention_dropout
        self.query = nn.Linear(style.width, style.width)
        self.key = nn.Linear(style.width, style.width)
        self.value = nn.Linear(style.width, style.width)
        self.output = nn.Linear(style.width, style.width)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        source = x if memory is None else memory
        mixed = F.scaled_dot_product_attention(
            self._split(self.query(x)),
            self._split(self.key(source)),
            self._split(self.value(source)),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal,
        )
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


class Residual(nn.Module):
    """A branch added to its input, normalised before the branch (GPT-2) or after the sum (Vaswani, BERT)."""

    def __init__(self, branch: nn.Module, style: Style) -> None:
        super().__init__()
        self.branch = branch
        self.norm = nn.LayerNorm(style.width, eps=style.norm_epsilon)
        self.dropout = nn.Dropout(style.dropout)
        self.norm_first = style.norm_first

    def forward(self, x: Tensor, *memory: Tensor) -> Tensor:
        inside = self.norm(x) if self.norm_first else x
        total: Tensor = x + self.dropout(self.branch(inside, *memory))
        return total if self.norm_first else self.norm(total)


class Block(nn.Module):
    """Self-attention, attention over a memory if it is a translator's decoder, and a feed-forward layer."""

    def __init__(self, style: Style, *, causal: bool, over_memory: bool = False) -> None:
        super().__init__()
        self.attention = Residual(Attention(style, causal), style)
        self.memory_attention = Residual(Attention(style, causal=False), style) if over_memory else None
        feed_forward = nn.Sequential(
            nn.Linear(style.width, style.hidden),
            style.activation(),
            nn.Linear(style.hidden, style.width),
        )
        self.feed_forward = Residual(feed_forward, style)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = self.attention(x)
        if self.memory_attention is not None:
            x = self.memory_attention(x, memory)
        output: Tensor = self.feed_forward(x)
        return output


def small_weights(module: nn.Module) -> None:
    """Start as BERT and GPT-2 do, so that the scores of a tied embedding stay small; for `Module.apply`."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
