"""A profile in a terminal: the numbers, the largest tensors, and the memory curve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from neaptide.core.device import CATALOGUE, DeviceSpec
from neaptide.core.text import printable
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.figures.trace_timeline import STACKING, level_start_seconds, phase_spans
from neaptide.reporting.terminal.curves import draw_curve
from neaptide.reporting.terminal.tables import plain_table

_LARGEST = 10
_CURVE_ROWS = 12


def print_profile(trace: Trace, console: Console, device: DeviceSpec | None = None) -> None:
    """Print the profile; pass `device` if the catalogue does not have the trace's device."""
    device = device or CATALOGUE.get(trace.device)
    ascii_only = console.options.ascii_only
    parts: list[RenderableType] = [
        title(trace),
        "",
        _numbers(trace),
        "",
        _largest(trace, console.width, ascii_only),
        "",
    ]
    for part in parts:
        console.print(part, highlight=False, markup=False)
    curve, spans = trace.curve(), phase_spans(trace)
    for line in draw_curve(
        curve, spans, trace.persistent_bytes, width=console.width, height=_CURVE_ROWS, ascii_only=ascii_only
    ):
        console.print(line, no_wrap=True, overflow="crop")
    for warning in warnings(trace, device):
        console.print()
        console.print(Text(printable(warning), "bold yellow"))


def title(trace: Trace) -> Text:
    """One line that says what was profiled, and how."""
    batch = f", batch {trace.batch}" if trace.batch else ""
    work = "inference" if (trace.ops.phase == Phase.INFERENCE).all() else "training"
    how = "estimated for" if trace.estimated else "measured on"
    return Text.assemble((printable(trace.name), "bold"), printable(f"{batch}, {work}, {how} {trace.device}"))


def warnings(trace: Trace, device: DeviceSpec | None) -> Iterator[str]:
    """Sentences that a reader should know before relying on the profile."""
    if device is not None and trace.peak_bytes > device.memory_bytes:
        short = trace.peak_bytes - device.memory_bytes
        yield (
            f"Does not fit: needs {format_bytes(trace.peak_bytes)}, {device.name} has "
            f"{format_bytes(device.memory_bytes)}, {format_bytes(short)} too little."
        )
    if trace.variation:
        yield f"Iterations differ; this one has the highest peak: {trace.variation}."


def _numbers(trace: Trace) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(style="dim")
    peak_op = int(trace.held_bytes.argmax())
    when = format_seconds(float(level_start_seconds(trace)[peak_op]))
    where = f" of {trace.ops.module[peak_op]}" if trace.ops.module[peak_op] else ""
    phases = (f"{Phase(phase).name.lower()} {count:,}" for phase, count in _counts(trace))
    rate = trace.batch / trace.seconds if trace.seconds else 0.0
    for row in (
        ("persistent", format_bytes(trace.persistent_bytes), _persistent_parts(trace)),
        ("ephemeral", format_bytes(trace.ephemeral_bytes), "comes and goes within an iteration"),
        ("peak", format_bytes(trace.peak_bytes), f"at {when} in {trace.ops.name[peak_op]}{where}"),
        ("step time", format_seconds(trace.seconds), f"{rate:,.{0 if rate >= 100 else 2}f} samples/s" if rate else ""),
        ("light ops", f"{trace.light_share:.1%}", "of the device time; they leave room for other jobs"),
        ("ops", f"{len(trace.ops):,}", ", ".join(phases)),
    ):
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _counts(trace: Trace) -> list[tuple[int, int]]:
    phases, counts = np.unique(trace.ops.phase, return_counts=True)
    return list(zip(phases.tolist(), counts.tolist(), strict=True))


def _persistent_parts(trace: Trace) -> str:
    stays = trace.tensors.died == len(trace.ops)
    sums = ((kind, int(trace.tensors.bytes[stays & (trace.tensors.kind == kind)].sum())) for kind in STACKING)
    return ", ".join(f"{kind.name.lower()} {format_bytes(amount)}" for kind, amount in sums if amount)


def _largest(trace: Trace, width: int, ascii_only: bool) -> Table:
    narrow = width < 110
    table = plain_table()
    table.add_column("largest", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("life", no_wrap=True)
    table.add_column("module", overflow="fold")
    table.add_column("layout", overflow="fold")
    tensors = trace.tensors
    for row in np.lexsort((tensors.born, -tensors.bytes))[:_LARGEST].tolist():
        layout, producer = tensors.layout[row], int(trace.uses.producer[row])
        label = tensors.label[row] or (trace.ops.module[producer] if producer >= 0 else "")
        table.add_row(
            format_bytes(int(tensors.bytes[row])),
            Kind(tensors.kind[row]).name.lower(),
            Text(_life(trace, row, 8 if narrow else 16, ascii_only)),
            Text(printable(label)) if label else Text("(outside any module)", "dim"),
            Text(printable(layout.replace(", ", ",") if narrow else layout)),
        )
    return table


def _life(trace: Trace, row: int, columns: int, ascii_only: bool) -> str:
    """A small bar that shows when in the iteration a tensor is held, and for how long."""
    n = len(trace.ops)
    born, died = int(trace.tensors.born[row]), int(trace.tensors.died[row])
    start = float(level_start_seconds(trace)[min(max(born, 0), n - 1)])
    end = float(trace.end_seconds[min(died, n - 1)]) if died >= 0 else 0.0
    whole = trace.seconds or 1.0
    first = min(int(start / whole * columns), columns - 1)
    last = max(first + 1, round(end / whole * columns))
    off, on = ".=" if ascii_only else "·━"
    bar = off * first + on * (last - first) + off * (columns - last)
    return f"{bar} {'always' if born < 0 and died >= n else format_seconds(end - start)}"
