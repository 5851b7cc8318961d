"""Convolution workspaces (SuperNeurons, section 3.5): the fastest algorithm whose workspace fits what is free.

Memory that a plan has freed is not idle: each convolution may use what is left of the budget while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neaptide.core.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to run an op: how long it takes and what it needs beside its tensors."""

    seconds: float
    workspace_bytes: int


def with_workspaces(trace: Trace, algorithms: Mapping[int, Sequence[Algorithm]], budget_bytes: int) -> Trace:
    """The trace with the fastest algorithm that fits for each op that has several; ValueError if none of an op's fits.

    The trace may be a planned one; the budget is never exceeded where the trace itself does not.
    """
    held = trace.held_bytes - trace.ops.scratch_bytes
    seconds, scratch = trace.ops.seconds.copy(), trace.ops.scratch_bytes.copy()
    for op, choices in algorithms.items():
        free = budget_bytes - int(held[op])
        fitting = [each for each in choices if each.workspace_bytes <= free]
        if not fitting:
            least = min((each.workspace_bytes for each in choices), default=0)
            raise ValueError(f"op {op} has {free} bytes free for its workspace, and its smallest takes {least}")
        best = min(fitting, key=lambda each: (each.seconds, each.workspace_bytes))
        seconds[op], scratch[op] = best.seconds, best.workspace_bytes
    return replace(trace, ops=replace(trace.ops, seconds=seconds, scratch_bytes=scratch))
