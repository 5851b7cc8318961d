"""A planned trace is a trace: what an iteration does under a plan, as an ordinary trace.

A tensor with gaps becomes one tensor per presence. Ops that run again, codecs and waits for late copies are ops of
their own, so the planned trace's seconds and curve need no correction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Integers, Labels, Lists
from neaptide.core.traces.trace import Ops, Phase, Tensors, Trace
from neaptide.planning.costing.order import reordered
from neaptide.planning.costing.presences import Presences
from neaptide.planning.costing.rows import DECODE, ENCODE, ORIGINAL, RERUN, WAIT
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import Plan, Return


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a plan does and what it costs, in figures."""

    planner: str
    peak_bytes: int
    seconds: float
    unplanned_peak_bytes: int
    unplanned_seconds: float
    waited_seconds: float  # for copies
    swapped_bytes: int
    recomputed_bytes: int
    compressed_bytes: int
    swaps: int
    recomputed: int  # gaps that end by recomputation
    reruns: int  # ops that run again
    compressions: int


def apply(trace: Trace, plan: Plan, device: DeviceSpec) -> Trace:
    """The trace of the same iteration under the plan.

    ValueError, which names the op and the tensor, if an op would read a tensor that is absent or changed, or would run
    before an op that it needs.
    """
    trace, plan = _in_order_of(plan, trace)
    return planned_trace(trace, Scheduler(trace, device).schedule(plan))


def summary_of(trace: Trace, plan: Plan, device: DeviceSpec) -> Summary:
    """What the plan does to the trace and what it costs."""
    unplanned = trace
    trace, plan = _in_order_of(plan, trace)
    schedule = Scheduler(trace, device).schedule(plan)
    sizes = trace.tensors.bytes
    moved = {way: sum(int(sizes[gap.tensor]) for gap in plan.gaps if gap.back is way) for way in Return}
    count = {way: sum(gap.back is way for gap in plan.gaps) for way in Return}
    return Summary(
        planner=plan.planner,
        peak_bytes=schedule.peak_bytes,
        seconds=schedule.seconds,
        unplanned_peak_bytes=unplanned.peak_bytes,
        unplanned_seconds=unplanned.seconds,
        waited_seconds=schedule.waited_seconds,
        swapped_bytes=moved[Return.SWAP],
        recomputed_bytes=moved[Return.RECOMPUTE],
        compressed_bytes=moved[Return.DECODE],
        swaps=count[Return.SWAP],
        recomputed=count[Return.RECOMPUTE],
        reruns=schedule.rows.rerun_op.size,
        compressions=count[Return.DECODE],
    )


def _in_order_of(plan: Plan, trace: Trace) -> tuple[Trace, Plan]:
    """The trace in the plan's order, and the plan for that trace."""
    return (reordered(trace, plan.order), replace(plan, order=())) if plan.order else (trace, plan)


def planned_trace(trace: Trace, schedule: Schedule) -> Trace:
    """The trace of a schedule."""
    rows = schedule.rows
    keep = schedule.kept
    there = schedule.presences.without(~keep)
    kept_row = np.cumsum(keep) - 1
    stage, anchor, item = rows.stage[keep], rows.anchor[keep], rows.item[keep]
    runs = (stage == RERUN) | (stage == ORIGINAL)
    op = np.where(runs, item, anchor)
    reads, writes = _accesses(trace, schedule, there, kept_row)
    code_row = there.gap >= 0
    layout_codes = [f"code:{schedule.gaps.codec[gap]}" for gap in there.gap[code_row].tolist()]
    layouts = trace.tensors.layout
    kept_layouts = [layouts.words[code] for code in layouts.codes[there.tensor[~code_row]].tolist()]
    moved = np.where(runs, trace.ops.moved_bytes[op], 0)
    coded = np.flatnonzero((stage == ENCODE) | (stage == DECODE))
    tensor = schedule.gaps.tensor[item[coded]]
    moved[coded] = trace.tensors.bytes[tensor] * (1 + schedule.gaps.ratio[item[coded]])
    phase = trace.ops.phase[op]
    return Trace(
        name=trace.name,
        device=trace.device,
        batch=trace.batch,
        estimated=trace.estimated,
        asynchronous=trace.asynchronous,
        variation=trace.variation,
        ops=Ops(
            name=_names(trace, schedule, stage, item),
            module=_picked(trace.ops.module, op),
            phase=np.where(stage == RERUN, np.uint8(Phase.BACKWARD), phase).astype(np.uint8),
            seconds=schedule.durations[keep],
            host_seconds=schedule.host_seconds[keep],
            flops=np.where(runs, trace.ops.flops[op], 0.0),
            moved_bytes=moved,
            fill=np.where(stage == WAIT, 0.0, np.where(runs, trace.ops.fill[op], 1.0)),
            scratch_bytes=schedule.scratch_bytes[keep],
            reads=reads,
            writes=writes,
        ),
        tensors=Tensors(
            bytes=there.bytes,
            kind=trace.tensors.kind[there.tensor],
            label=_picked(trace.tensors.label, there.tensor),
            layout=Labels.of([*kept_layouts, *layout_codes]),
            born=there.start,
            died=there.end,
            saved=trace.tensors.saved[there.tensor],
        ),
    )


def _accesses(trace: Trace, schedule: Schedule, there: Presences, kept_row: Integers) -> tuple[Lists, Lists]:
    """The presences that each row reads and writes; ValueError if a tensor is absent then."""
    rows, again, gaps = schedule.rows, schedule.reruns, schedule.gaps
    codes = np.flatnonzero(gaps.decode)
    plain = there.gap < 0
    presence_of_code = np.full(len(gaps), -1)
    presence_of_code[there.gap[~plain]] = np.flatnonzero(~plain)
    count = int(kept_row[-1]) + 1

    def found(row: Integers, tensor: Integers) -> Integers:
        at = there.latest(tensor, row)
        absent = (at < 0) | (there.tensor[at] != tensor) | (there.end[at] < row) | (there.start[at] > row)
        if absent.any():
            first = int(absent.argmax())
            where = int(np.flatnonzero(kept_row == row[first])[-1])
            user = _described(trace, schedule, where)
            raise ValueError(f"not a plan: {user} would use tensor {tensor[first]}, which is absent then")
        return at

    lists = []
    for column, rerun, tensor, code_rows, other_rows in (
        (trace.ops.reads, again.read, again.read_tensor, rows.decode_row, rows.encode_row),
        (trace.ops.writes, again.write, again.write_tensor, rows.encode_row, rows.decode_row),
    ):
        row = np.concatenate((rows.op_row[column.owners()], rows.rerun_row[rerun], other_rows[codes]))
        which = found(kept_row[row], np.concatenate((column.items, tensor, gaps.tensor[codes])))
        row = kept_row[np.concatenate((row, code_rows[codes]))]
        which = np.concatenate((which, presence_of_code[codes]))
        order = np.argsort(row, kind="stable")
        offsets = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=count))))
        lists.append(Lists(offsets, which[order]))
    return lists[0], lists[1]


def _described(trace: Trace, schedule: Schedule, row: int) -> str:
    stage, item = int(schedule.rows.stage[row]), int(schedule.rows.item[row])
    if stage == ORIGINAL:
        return f"op {item} ({trace.ops.name[item]})"
    if stage == RERUN:
        return f"op {item} ({trace.ops.name[item]}), run again before op {schedule.rows.anchor[row]},"
    return f"a codec at op {schedule.rows.anchor[row]}"


def _names(trace: Trace, schedule: Schedule, stage: Integers, item: Integers) -> Labels:
    words, codes = trace.ops.name.words, trace.ops.name.codes
    texts = []
    for kind, which in zip(stage.tolist(), item.tolist(), strict=True):
        if kind == ORIGINAL:
            texts.append(words[codes[which]])
        elif kind == RERUN:
            texts.append(f"recompute:{words[codes[which]]}")
        elif kind == WAIT:
            texts.append("wait:swap")
        else:
            texts.append(f"{'encode' if kind == ENCODE else 'decode'}:{schedule.gaps.codec[which]}")
    return Labels.of(texts)


def _picked(labels: Labels, rows: Integers) -> Labels:
    return Labels(labels.words, labels.codes[rows])
