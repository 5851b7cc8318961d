"""Makes the trace of a job's iteration from the device's log of its kernels: an op for each kernel.

The log has each kernel's own time and what memory the process needed and leased when it was launched. Neither depends
on what other jobs do meanwhile. Which tensors there are is not known: the trace has some that add up to the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT
from neaptide.core.traces.columns import Floats, Integers, Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace
from neaptide.devices.interface import KernelRecord

# A kernel may start a little after it could, because of the device's own work between kernels; that time counts as the
# kernel's. If it is longer than this, the kernel waited for something.
_LONGEST_GAP_NS = 1_000_000
# The host waited for the device if it launches within this share of its time between two launches after the device's
# last kernel has ended.
_WAITED_SHARE = 0.25
_MOST_OPS = 8192  # more kernels than this become one op in groups


@dataclass(frozen=True, slots=True)
class LoggedIteration:
    """One iteration's kernels, in the order of their launches."""

    kernels: Sequence[KernelRecord]
    forward_kernels: int  # of them, the first ones are of the forward pass
    rest_bytes: int  # needed when it began
    framework_bytes: int = 0  # of those, in no tensor of the program

    @property
    def peak_bytes(self) -> int:
        return max(kernel.needed_bytes + kernel.scratch_bytes for kernel in self.kernels)

    @property
    def signatures(self) -> list[tuple[str, int]]:
        return [(kernel.name, kernel.signature) for kernel in self.kernels]


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """What a trace says of its origin."""

    name: str
    device: str
    sms: int
    serving: bool  # the iteration is one call without gradients


def trace_of(iterations: Sequence[LoggedIteration], where: JobOrigin) -> tuple[Trace, Integers]:
    """The trace of an iteration, and for each of its kernels the op that it belongs to.

    If all iterations launch the same kernels, times are medians over them. Otherwise the one with the highest peak is
    taken: what is expected of the job must be enough for it.
    """
    chosen = max(iterations, key=lambda each: (each.peak_bytes, len(each.kernels)))
    alike = [each for each in iterations if each.signatures == chosen.signatures]
    seconds, host_seconds = _typical_times(alike)
    needed = np.max([[kernel.needed_bytes for kernel in each.kernels] for each in alike], axis=0).astype(np.int64)
    scratch = np.array([kernel.scratch_bytes for kernel in chosen.kernels], dtype=np.int64)
    fill = np.array([min(kernel.width / where.sms, 1.0) for kernel in chosen.kernels])
    rest_bytes = min(each.rest_bytes for each in iterations)
    framework_bytes = min(rest_bytes, *(each.framework_bytes for each in iterations))
    count = len(chosen.kernels)
    group = -(-count // _MOST_OPS)
    op_of_kernel = np.arange(count) // group
    firsts = np.arange(0, count, group)
    forward = -(-chosen.forward_kernels // group)
    levels = np.maximum.reduceat(needed, firsts)
    scratch = np.maximum.reduceat(needed + scratch, firsts) - levels  # of the most demanding kernel of a group
    busy = np.add.reduceat(seconds, firsts)
    fill = np.divide(np.add.reduceat(seconds * fill, firsts), busy, out=fill[firsts], where=busy > 0)
    ops = _ops(chosen, firsts, forward, where.serving, (busy, np.add.reduceat(host_seconds, firsts), fill, scratch))
    trace = Trace(
        name=where.name,
        device=where.device,
        batch=0,
        estimated=False,
        asynchronous=True,
        variation=_variation(iterations) if len(alike) < len(iterations) else "",
        ops=ops,
        tensors=_tensors(np.maximum(levels - rest_bytes, 0), rest_bytes, framework_bytes, forward),
    )
    return trace, op_of_kernel


def _ops(
    iteration: LoggedIteration,
    firsts: Integers,
    forward: int,
    serving: bool,
    columns: tuple[Floats, Floats, Floats, Integers],
) -> Ops:
    count = firsts.size
    phase = np.full(count, Phase.INFERENCE if serving else Phase.BACKWARD, dtype=np.uint8)
    if not serving:
        phase[:forward] = Phase.FORWARD
    seconds, host_seconds, fill, scratch = columns
    nothing = Lists.of([()] * count)
    return Ops(
        name=Labels.of(iteration.kernels[first].name for first in firsts.tolist()),
        module=Labels.of([""] * count),
        phase=phase,
        seconds=seconds,
        host_seconds=host_seconds,
        flops=np.zeros(count),
        moved_bytes=np.zeros(count, dtype=np.int64),
        fill=np.clip(fill, 0.0, 1.0),
        scratch_bytes=scratch,
        reads=nothing,
        writes=nothing,
    )


# --- times


def _typical_times(alike: Sequence[LoggedIteration]) -> tuple[Floats, Floats]:
    """Seconds on the device and on the host for each kernel."""
    lengths, gaps, hosts = zip(*(_times_ns(each) for each in alike), strict=True)
    # A gap before a kernel is the device's own work, or a wait for other jobs: the shortest is the device's.
    seconds = np.median(lengths, axis=0) + np.min(gaps, axis=0)
    return seconds * 1e-9, np.median(hosts, axis=0) * 1e-9


def _times_ns(iteration: LoggedIteration) -> tuple[Floats, Floats, Floats]:
    """For each kernel: how long it ran, how long it could have run and did not, and the host's time before it."""
    kernels = iteration.kernels
    ended: dict[int, int] = {}  # the end of the last kernel of each stream
    gaps = np.zeros(len(kernels))
    for index, kernel in enumerate(kernels):
        gap = kernel.start_ns - max(kernel.launch_ns, ended.get(kernel.stream, 0))
        gaps[index] = gap if 0 <= gap < _LONGEST_GAP_NS else 0
        ended[kernel.stream] = kernel.end_ns
    launch = np.array([kernel.launch_ns for kernel in kernels], dtype=np.int64)
    end = np.array([kernel.end_ns for kernel in kernels], dtype=np.int64)
    lengths = np.array([kernel.end_ns - kernel.start_ns for kernel in kernels], dtype=np.float64)
    return np.maximum(lengths, 0), gaps, _host_ns(launch, end)


def _host_ns(launch: Integers, end: Integers) -> Floats:
    """The host's own time before each launch after the first, which may wait for a permit, without other waits.

    The host waits until the device is idle to read a result; then the device was busy for nearly all of the time. It
    also waits when as many kernels as may be are in flight.
    """
    previous = np.concatenate((launch[:1], launch[:-1]))
    idle_from = np.concatenate(([0], np.maximum.accumulate(end)[:-1]))
    own = launch - previous
    since = launch - idle_from
    read = (previous < idle_from) & (since >= 0) & (since < own * _WAITED_SHARE)
    # Of the kernels before each one, those that had not ended when the previous one was launched.
    in_flight = np.arange(launch.size) - np.searchsorted(np.maximum.accumulate(end), previous, side="right")
    full = in_flight >= DEFAULT_IN_FLIGHT
    return np.where(full, 0, np.where(read, since, own)).clip(0).astype(np.float64)


# --- memory


def _tensors(above: Integers, rest_bytes: int, framework_bytes: int, forward: int) -> Tensors:
    """Tensors that add up to a curve over the bytes at rest: each rise is one, and falls end the youngest first."""
    at_rest = (framework_bytes, rest_bytes - framework_bytes)
    rows = [(size, -1, above.size) for size in at_rest if size]
    stack: list[tuple[int, int]] = []  # bytes and birth
    level = 0
    for op, now in enumerate(above.tolist()):
        if now > level:
            stack.append((now - level, op))
        while now < level:
            size, born = stack.pop()
            if size > level - now:
                stack.append((size - (level - now), born))
                size = level - now
            rows.append((size, born, op - 1))
            level -= size
        level = now
    rows += [(size, born, above.size - 1) for size, born in stack]
    sizes, births, deaths = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    kind = np.where((births < forward) & (deaths >= forward), Kind.ACTIVATION, Kind.TEMPORARY)
    kind[deaths == above.size] = Kind.PARAMETER
    kind[: 1 if framework_bytes else 0] = Kind.FRAMEWORK
    nameless = Labels.of([""] * sizes.size)
    return Tensors(
        bytes=sizes,
        kind=kind.astype(np.uint8),
        label=nameless,
        layout=nameless,
        born=births,
        died=deaths,
        saved=np.zeros(sizes.size, dtype=np.bool_),
    )


def _variation(iterations: Sequence[LoggedIteration]) -> str:
    counts = [len(each.kernels) for each in iterations]
    return f"iterations differ: they launch {min(counts):,} to {max(counts):,} kernels"
