"""Hand-made plans that act on every tensor they can, and training runs to compare with and without a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch
from torch import Tensor, nn

import neaptide
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace
from neaptide.fitting.run import Run
from neaptide.planning.analysis.candidates import candidates
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.plan import Gap, Plan, Planner, Return

PROFILED = 7  # iterations before a plan is carried out


def planner(ways: str, stay: bool = True, codec: str | None = None) -> Planner:
    """A planner that treats candidate i by letter i of `ways`, cyclically: s(wap), r(ecompute), c(ode), k(eep)."""

    def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:  # noqa: ARG001
        found, chains = candidates(trace), RecomputeChains(trace)
        gaps: list[Gap] = []
        for row, way in zip(range(len(found)), cycle(ways), strict=False):
            back = {"s": Return.SWAP, "r": Return.RECOMPUTE, "c": Return.DECODE, "k": None}[way]
            tensor = int(found.tensor[row])
            possible = trace.tensors.saved[tensor] and (found.recomputable[row] or back is not Return.RECOMPUTE)
            if back is None or not possible:
                continue
            gaps.append(found.gap(row, back, codec=codec if back is Return.DECODE else None))
        try:
            return Plan(planner="hand", gaps=chains.complete(gaps, stay=stay))
        except CannotRecomputeError:  # not all can be recomputed together, so add them one by one
            good: list[Gap] = []
            for gap in gaps:
                with suppress(CannotRecomputeError):
                    chains.complete([*good, gap], stay=stay)
                    good.append(gap)
            return Plan(planner="hand", gaps=chains.complete(good, stay=stay))

    return plan


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every gradient of every iteration, and the final state."""

    gradients: list[list[Tensor]]
    state: list[Tensor]


def train(
    build: Callable[[], nn.Module],
    step: Callable[[nn.Module], object],
    plan: Planner | None,
    iterations: int = PROFILED + 2,
    budget: str = "1GiB",
) -> tuple[Outcome, Run | None]:
    """Train with plain gradient descent, with or without a plan; `step` computes the gradients."""
    torch.manual_seed(1)
    model = build().to("soft")
    gradients: list[list[Tensor]] = []

    def loop() -> None:
        for _ in range(iterations):
            step(model)
            grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            gradients.append([grad.cpu() for grad in grads])
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad, alpha=0.01)
                        parameter.grad = None

    run = None
    if plan is None:
        loop()
    else:
        with neaptide.fit(model, budget, planner=plan) as run:
            loop()
    return Outcome(gradients, [value.cpu() for value in model.state_dict().values()]), run


def same(first: Outcome, second: Outcome) -> bool:
    """Whether two outcomes are equal bit by bit."""
    return all(
        len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip([*first.gradients, first.state], [*second.gradients, second.state], strict=True)
    )


def small_trace(
    reads: list[list[int]], writes: list[list[int]], phases: list[Phase], kinds: list[Kind], bytes_each: int = 1024
) -> Trace:
    """A trace with a millisecond per op; a tensor lives from its first to its last use, a parameter always."""
    n, m = len(reads), len(kinds)
    uses = [[op for op in range(n) if t in reads[op] or t in writes[op]] for t in range(m)]
    lasting = [kind is Kind.PARAMETER for kind in kinds]
    zeros = np.zeros(n)
    return Trace(
        name="small",
        device="soft",
        batch=1,
        estimated=False,
        asynchronous=True,
        variation="",
        ops=Ops(
            name=Labels.of(f"aten::op{op}" for op in range(n)),
            module=Labels.of([""] * n),
            phase=np.array(phases, dtype=np.uint8),
            seconds=np.full(n, 1e-3),
            host_seconds=zeros,
            flops=zeros,
            moved_bytes=np.zeros(n, dtype=np.int64),
            fill=np.ones(n),
            scratch_bytes=np.zeros(n, dtype=np.int64),
            reads=Lists.of(reads),
            writes=Lists.of(writes),
        ),
        tensors=Tensors(
            bytes=np.full(m, bytes_each, dtype=np.int64),
            kind=np.array(kinds, dtype=np.uint8),
            label=Labels.of([""] * m),
            layout=Labels.of(["float32[256]"] * m),
            born=np.array([-1 if last else use[0] for use, last in zip(uses, lasting, strict=True)], dtype=np.int64),
            died=np.array([n if last else use[-1] for use, last in zip(uses, lasting, strict=True)], dtype=np.int64),
            saved=np.array([kind is Kind.ACTIVATION for kind in kinds]),
        ),
    )
