"""Selective checkpointing: matrix products are kept, the rest is computed again."""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def policy(context, op, *args, **kwargs):  # noqa: ARG001
    keep = op in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
contexts = partial(create_selective_checkpoint_contexts, policy)
for _ in range(20):
    x = torch.randn(128, 64, device="cuda")
    loss = (checkpoint(model, x, use_reentrant=False, context_fn=contexts) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
