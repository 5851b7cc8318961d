"""What a model pays for running in less memory here, and how near the prediction was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from statistics import median
from time import perf_counter
from typing import Any

from neaptide.core.device import find_device
from neaptide.reporting.bench import Figure

# name, scale, batch: sizes whose activations outweigh what persists, and that two cores can train. What single ops need
# keeps VGG-16, U-Net and the LSTM above some of the shares; the figure then says how far down they can go.
MODELS = (
    ("resnet50", "tiny", 64),
    ("vgg16", "tiny", 64),
    ("bert-base", "tiny", 64),
    ("gpt2", "tiny", 32),
    ("unet", "tiny", 16),
    ("rnnlm-large", "tiny", 80),
)
# A kernel takes one of the SMs, so that another is left for copies: a GPU has engines of their own for them.
ONE_SM = {"NEAPTIDE_SOFT_SMS": "1"}
OTHERS = {
    "checkpoint": "torch.utils.checkpoint per block",
    "offload": "save_on_cpu",
    "compile": "torch.compile with half of the activations",
}
SHARES = (1.0, 0.75, 0.5, 0.35)
WITH_BLOCKS = ("resnet50", "bert-base", "gpt2")
PLANNED = (("bert-large", 8), ("resnet152", 32))
ITERATIONS = 12  # under a plan, after the profiled ones
ROUNDS = 2


def figures() -> Iterator[Figure]:
    """Each run is a process of its own; those of a ratio in turn."""
    for name, batch in PLANNED:
        yield Figure(f"{name}: planner seconds of best", _planner_seconds(name, batch), "s", "<= 5")
    for name, scale, batch in MODELS:
        model = f"{name} {scale}"
        plain = _child("plain", name, scale, batch)
        for share in SHARES:
            budget = round(plain["persistent"] + share * plain["ephemeral"])
            yield from _fitted(f"{model} at {share:.0%}", name, scale, batch, budget, share)
        if name in WITH_BLOCKS:
            for how, title in OTHERS.items():
                try:
                    theirs = [_child(how, name, scale, batch) for _ in range(ROUNDS)]
                except RuntimeError as error:
                    reason = next((line for line in str(error).splitlines()[::-1] if "Explanation" in line), "")
                    yield Figure(f"{model}: {title} does not run here; {reason.strip()[:80]}", 0, "x")
                    continue
                budget = round(max(run["peak"] for run in theirs))
                try:
                    ours = [_child("fit", name, scale, batch, budget) for _ in range(ROUNDS)]
                except _CannotError as error:
                    yield Figure(f"{model}: {title} at {error}, which no plan of ours reaches", 0, "x", ">= 1")
                    continue
                ratio = median(run["seconds"] for run in theirs) / median(run["seconds"] for run in ours)
                yield Figure(f"{model}: {title} against a plan with its peak, time", ratio, "x", ">= 1")


def _fitted(title: str, name: str, scale: str, batch: int, budget: int, share: float) -> Iterator[Figure]:
    try:
        rounds = [
            (_child("plain", name, scale, batch), _child("fit", name, scale, batch, budget)) for _ in range(ROUNDS)
        ]
    except _CannotError as error:
        yield Figure(f"{title}: no plan; {error}", 0, "x")
        return
    fits = [fit for _, fit in rounds]
    peak = max(abs(fit["peak"] / fit["predicted_peak"] - 1) for fit in fits)
    yield Figure(f"{title}: measured peak off the predicted", 100 * peak, "%", "<= 2")
    yield Figure(f"{title}: measured peak of the budget", max(fit["peak"] for fit in fits) / budget, "x", "<= 1")
    off = abs(median(fit["seconds"] / fit["predicted_seconds"] for fit in fits) - 1)
    yield Figure(f"{title}: measured time off the predicted", 100 * off, "%", "<= 10")
    slower = median(fit["seconds"] / plain["seconds"] for plain, fit in rounds)
    yield Figure(f"{title}: time against no plan", slower, "x", "<= 1.10" if share == 0.5 else "")
    same = all(fit["digest"] == plain["digest"] for plain, fit in rounds)
    yield Figure(f"{title}: gradients bit-identical", float(same), "", ">= 1")


class _CannotError(Exception):
    """The budget cannot be met."""


def _child(*arguments: object) -> dict[str, Any]:
    words = [sys.executable, __file__, *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **ONE_SM, "NEAPTIDE_SOFT_BOARD": f"{folder}/board"}
        run = subprocess.run(words, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    if "cannot" in result:
        raise _CannotError(result["cannot"])
    return result


def _planner_seconds(name: str, batch: int) -> float:
    from neaptide.capture import estimated
    from neaptide.models import build
    from neaptide.planning.planners import PLANNERS

    device = find_device("V100")
    trace = estimated(lambda: build(name, batch).step, device, name=name, batch=batch)
    started = perf_counter()
    PLANNERS["best"](trace, trace.persistent_bytes + trace.ephemeral_bytes // 2, device)
    return perf_counter() - started


def _run(how: str, name: str, scale: str, batch: str, budget: str = "0") -> dict[str, Any]:
    import torch

    import neaptide
    import neaptide.devices.soft
    from neaptide.models import build

    torch.manual_seed(0)
    work = build(name, batch=int(batch), scale=scale, device="soft")  # type: ignore[arg-type]
    inputs = tuple(tensor.to("soft") for tensor in work.sample(work.batch))
    if how == "checkpoint":
        _checkpoint_blocks(work.model)
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    if how == "offload":
        around = lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)  # noqa: E731
    model = work.model
    if how == "compile":
        torch._functorch.config.activation_memory_budget = 0.5
        model = torch.compile(work.model, backend="aot_eager_decomp_partition")
    profiled = 6

    def step() -> None:
        work.optimizer.zero_grad(set_to_none=True)
        with around():
            loss = work.criterion(model(*inputs[:-1]), inputs[-1])
        loss.backward()
        work.optimizer.step()

    with neaptide.fit(work.model, int(budget)) if how == "fit" else nullcontext() as run:
        times = []
        try:
            for index in range(profiled + ITERATIONS):
                if index == profiled:
                    torch.soft.synchronize()
                    torch.soft.reset_peak_memory_stats()
                started = perf_counter()
                step()
                torch.soft.synchronize()
                times.append(perf_counter() - started)
        except ValueError as error:  # of the planner, or what it plans cannot be carried out
            return {"cannot": str(error)}
    peak = torch.soft.max_memory_allocated() if run is None else run.measured_peak_bytes  # it resets the counter
    digest = sha256()
    for parameter in work.model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    work.optimizer.zero_grad(set_to_none=True)
    persistent = torch.soft.memory_allocated()
    found = {
        "seconds": median(sorted(times[profiled:])[: ITERATIONS // 2]),
        "peak": peak,
        "persistent": persistent,
        "ephemeral": peak - persistent,
        "digest": digest.hexdigest(),
    }
    if run is not None:
        found |= {"predicted_peak": run.predicted_peak_bytes, "predicted_seconds": run.predicted_seconds}
    return found


def _checkpoint_blocks(model: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    for block in model.modules():
        if type(block).__name__ == "Block":
            forward = block.forward
            block.forward = lambda x, forward=forward: checkpoint(forward, x, use_reentrant=False)


if __name__ == "__main__":
    print(json.dumps(_run(*sys.argv[1:])))
