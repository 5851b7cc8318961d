"""The text of a run's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neaptide.core.units import format_bytes, format_seconds
from neaptide.planning.plan import Return

if TYPE_CHECKING:
    from neaptide.fitting.run import Run
    from neaptide.planning.executor.run.tensor_cache import TensorCache

_DONE = {Return.SWAP: "swapped", Return.RECOMPUTE: "computed again", Return.DECODE: "compressed"}
_MOST_LINES = 12


def described(run: Run) -> str:
    """The run's figures, its largest planned tensors, and the tensors that must stay."""
    chosen = run.chosen
    if run.cache is not None:
        return _described_cache(run, run.cache)
    if chosen is None:
        return f"budget {format_bytes(run.budget_bytes)}; still profiling, so there is no plan yet"
    summary, tensors = chosen.summary, chosen.trace.tensors
    peak, seconds = run.measured_peak_bytes, run.measured_seconds
    without = chosen.trace.peak_bytes + chosen.elsewhere_bytes
    lines = [
        f"budget    {format_bytes(run.budget_bytes)}, planner {summary.planner}",
        f"peak      {format_bytes(chosen.peak_bytes)} predicted, "
        f"{'not yet' if peak is None else format_bytes(peak)} measured, {format_bytes(without)} without a plan",
        f"iteration {format_seconds(chosen.seconds)} predicted, "
        f"{'not yet' if seconds is None else format_seconds(seconds)} measured, "
        f"{format_seconds(chosen.trace.seconds)} without a plan",
    ]
    done: dict[tuple[int, str], int] = {}
    for gap in chosen.program.plan.gaps:
        what = _DONE[gap.back] + (f" ({gap.codec})" if gap.codec else "")
        done[gap.tensor, what] = done.get((gap.tensor, what), 0) + 1
    order = sorted(done, key=lambda key: -int(tensors.bytes[key[0]]))
    for tensor, what in order[:_MOST_LINES]:
        times = f", {done[tensor, what]} times" if done[tensor, what] > 1 else ""
        lines.append(f"  {format_bytes(int(tensors.bytes[tensor])):>10}  {what}{times}: {_name(run, tensor)}")
    if len(order) > _MOST_LINES:
        rest = sum(int(tensors.bytes[tensor]) for tensor, _ in order[_MOST_LINES:])
        lines.append(f"  {format_bytes(rest):>10}  in {len(order) - _MOST_LINES} more")
    refused = {refusal.tensor: refusal.reason for refusal in chosen.program.refused} | chosen.refused
    reasons: dict[str, list[int]] = {}
    for tensor, reason in refused.items():
        reasons.setdefault(reason, []).append(int(tensors.bytes[tensor]))
    for reason, sizes in sorted(reasons.items(), key=lambda item: -sum(item[1]))[:_MOST_LINES]:
        lines.append(f"  {format_bytes(sum(sizes)):>10}  kept, {len(sizes)} tensors: {reason}")
    if run.replans:
        lines.append(f"planned again {run.replans} times, because an iteration differed")
    return "\n".join(lines)


def _described_cache(run: Run, cache: TensorCache) -> str:
    peak, seconds = run.measured_peak_bytes, run.measured_seconds
    sent, fetched = format_bytes(cache.copier.sent_bytes), format_bytes(cache.copier.fetched_bytes)
    return (
        f"budget    {format_bytes(run.budget_bytes)}, tensor cache\n"
        f"peak      {'not yet' if peak is None else format_bytes(peak)} measured\n"
        f"iteration {'not yet' if seconds is None else format_seconds(seconds)} measured\n"
        f"traffic   {sent} to the host and {fetched} back, {cache.evictions} evictions"
    )


def _name(run: Run, tensor: int) -> str:
    assert run.trace is not None
    label = run.trace.tensors.label[tensor] or "outside modules"
    producer = int(run.trace.uses.producer[tensor])
    op = run.trace.ops.name[producer].removeprefix("aten::") if producer >= 0 else "given"
    return f"{op} of {label}, {run.trace.tensors.layout[tensor]}"
