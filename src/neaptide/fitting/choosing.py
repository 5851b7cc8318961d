"""The plan for a profiled iteration: the planner's plan without the gaps that cannot be carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Trace
from neaptide.core.units import format_bytes
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import Summary
from neaptide.planning.executor.compile.compiler import compile_plan
from neaptide.planning.executor.compile.prediction import predict
from neaptide.planning.executor.compile.program import Program
from neaptide.planning.executor.compile.recording import Recording
from neaptide.planning.plan import CannotFitError, Planner
from neaptide.planning.planners import best
from neaptide.planning.planners.files import find_planner

_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Chosen:
    """A program, and its predicted memory and time."""

    trace: Trace
    program: Program
    summary: Summary
    elsewhere_bytes: int  # on the device, but not part of the iteration
    refused: dict[int, str]  # tensors that must stay, and why

    @property
    def peak_bytes(self) -> int:
        return self.summary.peak_bytes + self.elsewhere_bytes

    @property
    def seconds(self) -> float:
        return self.summary.seconds


def choose(
    trace: Trace,
    recording: Recording,
    budget_bytes: int,
    planner: str | Planner,
    device: DeviceSpec,
    allocated_bytes: int,
) -> Chosen:
    """The program of a planner's plan within the budget; CannotFitError or ValueError if there is none.

    `allocated_bytes` are the bytes that the device holds when the iteration begins. The moments of an eager program are
    coarser than ops, so it can happen that the plan of `best` cannot be carried out within the budget and another
    planner's can: then the fastest of those is taken.
    """
    names = [planner, *best.KNOWN, *best.LAST_RESORTS] if planner == "best" else [planner]
    errors: list[ValueError] = []
    found: list[Chosen] = []
    for name in names:
        try:
            found.append(_choose(trace, recording, budget_bytes, name, device, allocated_bytes))
        except ValueError as error:
            errors.append(error)
            if isinstance(error, CannotFitError) and error.bound_bytes > budget_bytes:
                break  # no planner's plan can fit
        if found and name == planner:
            break
    if not found:
        raise errors[0]
    return min(found, key=lambda each: each.seconds)


def _choose(
    trace: Trace,
    recording: Recording,
    budget_bytes: int,
    planner: str | Planner,
    device: DeviceSpec,
    allocated_bytes: int,
) -> Chosen:
    """Plan, and plan again without the tensors that the executor refuses, until the program fits the budget."""
    at_start = int(trace.tensors.bytes[trace.tensors.born == -1].sum())
    elsewhere = max(0, allocated_bytes - at_start)
    plan_it = find_planner(planner) if isinstance(planner, str) else planner
    refused: dict[int, str] = {}
    for tensor in np.flatnonzero(trace.tensors.saved).tolist():
        activation = trace.tensors.kind[tensor] in (Kind.ACTIVATION, Kind.TEMPORARY)
        if activation and tensor not in recording.only_saved_from:
            refused[tensor] = "the program holds it too"
    target = budget_bytes - elsewhere
    lowest = trace.peak_bytes + elsewhere
    for tried in range(_ROUNDS):
        open_to_planners = _without(trace, refused)
        try:
            plan = plan_it(open_to_planners, target, device)
        except CannotFitError as error:
            if tried:
                break
            raise error.beside(elsewhere) from None
        if plan.order:
            raise ValueError(
                f"{plan.planner} reorders ops, and a program that runs eagerly keeps its order: name "
                f'"{plan.planner}-in-order" instead'
            )
        for waits in (False, True):
            program = compile_plan(trace, plan, recording, device, waits)
            chosen = Chosen(trace, program, predict(trace, program.plan, device), elsewhere, dict(refused))
            if chosen.peak_bytes <= budget_bytes:
                return chosen
        lowest = min(lowest, chosen.peak_bytes)
        refused.update({refusal.tensor: refusal.reason for refusal in program.refused})
        if not program.refused:  # moments are coarser than ops: aim lower, by more each time
            missed = (chosen.peak_bytes - budget_bytes) << max(tried - 1, 0)
            target = max(target - missed, min(target, lower_bound(open_to_planners)))
    raise ValueError(
        f"the best plan that can be carried out here needs {format_bytes(lowest)}, more than the budget of "
        f"{format_bytes(budget_bytes)}: raise the budget"
    )


def _without(trace: Trace, refused: dict[int, str]) -> Trace:
    """The trace with the refused tensors disguised as temporaries, which no planner touches."""
    if not refused:
        return trace
    kind, saved = trace.tensors.kind.copy(), trace.tensors.saved.copy()
    rows = list(refused)
    kind[rows], saved[rows] = Kind.TEMPORARY, False
    return replace(trace, tensors=replace(trace.tensors, kind=kind, saved=saved))
