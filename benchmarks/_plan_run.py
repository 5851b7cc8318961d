"""A process of the planning benchmark: trains a network plainly or with another method, and under a plan.

Every method starts from the same weights and random numbers, so that the results can be compared bit by bit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from statistics import median
from time import perf_counter
from typing import Any

import torch
from benchmarks._networks import NETWORKS, to_device
from torch import nn

import neaptide.devices.soft  # noqa: F401
from neaptide.fitting.link import link_bandwidth
from neaptide.fitting.run import Run, fit

SETTLING, TIMED = 8, 10  # iterations; the plan is made after the first
Around = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Phase:
    """Some iterations of a new network with one method."""

    seconds: float  # median per iteration
    peak_bytes: int
    persistent_bytes: int
    digest: str
    run: Run | None


def phase(name: str, way: str, layout: torch.memory_format, budget_bytes: int = 0) -> Phase:
    """Train a new network with one method."""
    recipe = NETWORKS[name]
    torch.manual_seed(0)
    module = recipe.module().to("soft", memory_format=layout)
    inputs = to_device(recipe.sample(recipe.batch), layout)
    optimizer = recipe.optimizer(module.parameters())
    model, around = _changed(module, way)
    fitted = fit(module, budget_bytes) if way == "plan" else None
    times = []
    with fitted or nullcontext():
        for index in range(SETTLING + TIMED):
            if index == SETTLING:
                torch.soft.synchronize()
                torch.soft.reset_peak_memory_stats()
            started = perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with around():
                loss = recipe.criterion(model(*inputs[:-1]), inputs[-1])
            loss.backward()
            optimizer.step()
            torch.soft.synchronize()
            times.append(perf_counter() - started)
    del loss
    peak = fitted.measured_peak_bytes if fitted is not None else torch.soft.max_memory_allocated()
    assert peak is not None
    digest = sha256()
    for parameter in module.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    optimizer.zero_grad(set_to_none=True)
    return Phase(
        seconds=median(times[SETTLING:]),
        peak_bytes=peak,
        persistent_bytes=torch.soft.memory_allocated(),
        digest=digest.hexdigest(),
        run=fitted,
    )


def _changed(module: nn.Module, way: str) -> tuple[Any, Around]:
    if way == "checkpoint":
        _checkpoint_blocks(module)
    if way == "compile":
        torch._functorch.config.activation_memory_budget = 0.5
        return torch.compile(module, backend="aot_eager_decomp_partition"), nullcontext
    if way == "offload":
        return module, partial(torch.autograd.graph.save_on_cpu, pin_memory=True)
    return module, nullcontext


def _checkpoint_blocks(model: nn.Module) -> None:
    from torch.utils.checkpoint import checkpoint

    for block in model.modules():
        if type(block).__name__ == "Block":
            forward = block.forward
            block.forward = lambda x, forward=forward: checkpoint(forward, x, use_reentrant=False)  # type: ignore[method-assign]


def main(name: str, way: str, share: str = "1") -> dict[str, Any]:
    """Train with the method, under a plan, and with the method again.

    The plan's budget is a share of the method's peak; for `plain`, a share of its ephemeral bytes.
    """
    # With channels last, convolutions need no copies in another layout; the compiler does not support it.
    layout = torch.contiguous_format if way == "compile" else torch.channels_last
    before = phase(name, way, layout)
    budget = round(before.peak_bytes * float(share))
    if way == "plain":
        budget = round(before.persistent_bytes + float(share) * (before.peak_bytes - before.persistent_bytes))
    try:
        ours = phase(name, "plan", layout, budget)
    except ValueError as error:  # no plan meets the budget, or the plan cannot be executed
        return {"cannot": str(error)}
    after = phase(name, way, layout)
    theirs = (before.seconds + after.seconds) / 2
    run = ours.run
    assert run is not None
    return {
        "peak_bytes": ours.peak_bytes,
        "budget_bytes": budget,
        "predicted_peak_bytes": run.predicted_peak_bytes,
        "profiled_peak_bytes": run.profiled_peak_bytes,
        "seconds": ours.seconds,
        "predicted_seconds": run.predicted_seconds,
        "their_seconds": theirs,
        "identical": before.digest == ours.digest == after.digest,
        # Whether the link can move the excess out in half of an iteration, and back in the other half.
        "can_hide": (before.peak_bytes - budget) / link_bandwidth(torch.device("soft")) <= theirs / 2,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
