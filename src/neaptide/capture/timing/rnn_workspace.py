"""The bytes that a fused LSTM layer keeps for its backward pass; only the library that runs it knows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

# The library rounds to pages, so all short sequences need the same; above this length the need grows linearly.
_SHORT, _LONG = 32, 64


def rnn_workspace_bytes(args: Sequence[Any]) -> int:
    """The workspace of a call of `aten::mkldnn_rnn_layer` with these arguments, whose tensors may be fake."""
    steps, batch, width = args[0].shape
    hidden, training = args[10], args[15]
    if not training:
        return 0
    if steps <= _LONG:
        return _ask(steps, batch, width, hidden)
    short, long = _ask(_SHORT, batch, width, hidden), _ask(_LONG, batch, width, hidden)
    return long + (long - short) * (steps - _LONG) // (_LONG - _SHORT)


@cache
def _ask(steps: int, batch: int, width: int, hidden: int) -> int:
    """Run one layer on zeros and read the size of its workspace."""
    with _disable_current_modes(), torch.enable_grad():  # without gradients it keeps nothing
        gates = 4 * hidden
        state = torch.zeros(batch, hidden)
        weights = (torch.zeros(gates, width), torch.zeros(gates, hidden), torch.zeros(gates), torch.zeros(gates))
        out = torch.ops.aten.mkldnn_rnn_layer(
            torch.zeros(steps, batch, width), *weights, state, state, False, [], 2, hidden, 1, True, False, False, True
        )
        workspace: torch.Tensor = out[3]
        return workspace.numel()
