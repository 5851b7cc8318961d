"""How long it takes to know a job: recording, estimating, trace files, and arithmetic on curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from statistics import median
from time import perf_counter

import torch

from neaptide import estimate, measure, models
from neaptide.capture.recording.hooks import watching
from neaptide.capture.recording.recorder import Recorder
from neaptide.core.device import find_device
from neaptide.core.traces.curve import total
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import decode, encode
from neaptide.reporting.terminal.bench import Figure

DEVICE = find_device("V100-16GB")
RECORDED = ("resnet50", "gpt2", "rnnlm-large")
ESTIMATED = ("bert-large", "nasnet-large", "resnet152")


def figures() -> Iterator[Figure]:
    """Time every step from a job to its memory curve."""
    for name in RECORDED:
        yield from _recording(name)
    traces = []
    for name in ESTIMATED:
        started = perf_counter()
        traces.append(_estimate(name))
        goal = "<= 15" if name in ("bert-large", "nasnet-large") else ""
        yield Figure(f"estimate {name} at paper size", perf_counter() - started, "s", goal)
    for trace in traces:
        data = encode(trace)
        yield Figure(f"trace file of {trace.name}, {len(trace.ops)} ops", len(data) / 1024, "KiB")
    yield Figure(f"write a trace of {len(traces[0].ops)} ops", 1e3 * _seconds(lambda: encode(traces[0])), "ms")
    yield Figure(f"read a trace of {len(traces[0].ops)} ops", 1e3 * _seconds(lambda: decode(data)), "ms")
    yield from _arithmetic(traces)


def _recording(name: str) -> Iterator[Figure]:
    """Recorded and plain steps take turns, so that a disturbance of the machine affects both."""
    torch.manual_seed(0)
    step = models.build(name, scale="tiny").step
    step()
    plain, recorded, kernels = [], [], 0
    for _ in range(7):
        plain.append(_once(step))
        recorder = Recorder(torch.device("cpu"))
        with watching(recorder), recorder:
            recorded.append(_once(step))
        kernels = recorder.clock
    yield Figure(f"{name} tiny: recorded step against a plain one", median(recorded) / median(plain), "x")
    yield Figure(f"{name} tiny: ops recorded", kernels / median(recorded), "ops/s")
    yield Figure(f"{name} tiny: whole capture, times included", _once(lambda: measure(step)), "s")


def _estimate(name: str) -> Trace:
    return estimate(lambda: models.build(name).step, DEVICE, name=name)


def _arithmetic(traces: list[Trace]) -> Iterator[Figure]:
    full = [trace.curve() for trace in traces]
    first, second, third = (curve.coarsen(256) for curve in full)
    for share in (0.55, 0.65, 0.8):
        budget = int(share * (first.peak + second.peak))
        budget = max(budget, first.peak, second.peak)
        microseconds = 1e6 * _seconds(lambda budget=budget: second.earliest_fit(first, budget))  # type: ignore[misc]
        yield Figure(f"earliest fit of two 256-step curves at {share:.0%} of the peaks", microseconds, "us", "<= 50")
    yield Figure("sum of three 256-step curves", 1e6 * _seconds(lambda: total([first, second, third])), "us")
    yield Figure(f"coarsen {len(full[1])} steps to 256", 1e6 * _seconds(lambda: full[1].coarsen(256)), "us")
    ops = len(traces[1].ops)
    yield Figure(f"curve of a trace of {ops} ops", 1e6 * _seconds(lambda: _fresh(traces[1]).curve()), "us")


def _fresh(trace: Trace) -> Trace:
    """The same trace without its cached properties."""
    return Trace(**{field.name: getattr(trace, field.name) for field in fields(trace)})


def _once(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


def _seconds(work: Callable[[], object], repeats: int = 201) -> float:
    return median(_once(work) for _ in range(repeats))
