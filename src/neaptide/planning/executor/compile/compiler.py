"""Compiles a plan into a program: moves gaps to moments, and refuses what cannot be carried out, with the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.executor.compile.placement import Placement
from neaptide.planning.executor.compile.program import Program, Step, Verb
from neaptide.planning.executor.compile.recording import Recording
from neaptide.planning.executor.compile.swapping import planned_fetch_ops, release_ops
from neaptide.planning.plan import Gap, Plan, Return, in_order


def compile_plan(trace: Trace, plan: Plan, recording: Recording, device: DeviceSpec, waits: bool = False) -> Program:
    """The program that carries out as much of the plan as is possible.

    A swapped tensor is released at the first moment after the expected end of its copy out. With `waits` it is released
    at the last moment before, where the program waits for the copy: that holds less and takes a little longer.
    """
    placement = Placement(trace, plan, recording)
    gaps, chains = placement.gaps, placement.chains
    steps = _steps(trace, placement, recording, device, waits)
    moments = {(step.verb, step.gap): moment for moment, some in steps.items() for step in some}
    read = {t for chain in chains.values() for rerun in chain.reruns for t in rerun.call.tensors() if t >= 0}
    return Program(
        plan=replace(plan, gaps=in_order(_executed(gap, placement, recording, moments) for gap in gaps)),
        refused=placement.refused,
        saves=recording.saves,
        steps=steps,
        chains={(gap.tensor, gap.before): chains[gap.before] for gap in gaps if gap.back is Return.RECOMPUTE},
        recorded=frozenset(t for t in {*read, *(gap.tensor for gap in gaps)} if placement.is_saved(t)),
        bytes_of={tensor: int(trace.tensors.bytes[tensor]) for tensor in read},
        persistent={t: name for t, name in recording.persistent.items() if t in read},
    )


def _steps(
    trace: Trace, placement: Placement, recording: Recording, device: DeviceSpec, waits: bool
) -> dict[int, tuple[Step, ...]]:
    """What is done at each moment."""
    steps: dict[int, list[Step]] = defaultdict(list)
    swaps = [gap for gap in placement.gaps if gap.back is Return.SWAP]
    swaps.sort(key=lambda gap: (placement.begin(gap), gap.tensor))
    begun = [replace(gap, after=recording.op_of_moment[placement.begin(gap)] - 1) for gap in swaps]
    releases = release_ops(trace, begun, device)
    fetches = planned_fetch_ops(trace, swaps, device)
    for gap, release, fetch in zip(swaps, releases, fetches, strict=True):
        begin, end = placement.begin(gap), placement.end(gap)
        fetched = min(max(recording.last_moment(fetch), begin + 1), end)
        sent = recording.last_moment(release) if waits else recording.first_moment(release + 1)
        released = sent if gap.gone is None else recording.last_moment(gap.gone)
        steps[begin].append(Step(Verb.SEND, gap))
        steps[min(max(released, begin + 1), fetched)].append(Step(Verb.RELEASE, gap))
        steps[fetched].append(Step(Verb.FETCH, gap))
    for gap in placement.gaps:
        if gap.back is not Return.SWAP and placement.is_saved(gap.tensor):
            verb = Verb.ENCODE if gap.back is Return.DECODE else Verb.DROP
            steps[placement.begin(gap)].append(Step(verb, gap))
    return {
        moment: tuple(sorted(some, key=lambda step: (step.verb.value, step.gap.before)))
        for moment, some in steps.items()
    }


def _executed(gap: Gap, placement: Placement, recording: Recording, moments: Mapping[tuple[Verb, Gap], int]) -> Gap:
    """The gap as the program carries it out, in ops."""
    op_of = recording.op_of_moment
    before = min(op_of[placement.end(gap)], gap.before)
    if not placement.is_saved(gap.tensor):
        return replace(gap, before=before)
    after = op_of[placement.begin(gap)] - 1
    if gap.back is not Return.SWAP:
        return replace(gap, after=after, before=before)
    gone, fetch = (min(max(op_of[moments[verb, gap]], after + 1), before) for verb in (Verb.RELEASE, Verb.FETCH))
    return replace(gap, after=after, before=before, gone=gone, fetch=fetch)
