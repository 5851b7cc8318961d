"""For every network of the zoo: the estimate, the measurement and the allocator say the same."""

from __future__ import annotations

import gc
from functools import cache

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from torch.profiler import ProfilerActivity, profile, record_function

from neaptide import estimate, measure, models
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace

pytestmark = pytest.mark.networks


@cache
def measured_trace(name: str) -> Trace:
    return measure(models.build(name, scale="tiny").step, name=name, timed=1)


@cache
def estimated_trace(name: str) -> Trace:
    return estimate(lambda: models.build(name, scale="tiny").step, find_device("V100"), name=name)


def networks(*without: str) -> list[ParameterSet]:
    """Every network but these. All tests of a network run in one process, so its traces are made once."""
    names = (name for name in models.names() if name not in without)
    return [pytest.param(name, marks=pytest.mark.xdist_group(f"zoo {name}")) for name in names]


def op_names(trace: Trace) -> list[str]:
    return [trace.ops.name[i] for i in range(len(trace.ops))]


def tensor_bytes(trace: Trace) -> np.ndarray:
    return trace.held_bytes - trace.ops.scratch_bytes


def allocator_peak(name: str) -> int:
    """The most bytes that torch's CPU allocator had given out during a third training step, by its own record."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        workload = models.build(name, scale="tiny")
        workload.step()
        workload.step()
        with record_function("third step"):
            workload.step()
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    step = next(event for event in events if event.name() == "third step")
    held = peak = 0
    for event in events:
        if event.name() == "[memory]":
            held += event.nbytes()
            if step.start_ns() <= event.start_ns() <= step.end_ns():
                peak = max(peak, held)
    return peak


@pytest.mark.parametrize("name", networks())
def test_estimate_and_measurement_agree(name: str) -> None:
    one, other = estimated_trace(name), measured_trace(name)
    assert op_names(one) == op_names(other)
    assert tensor_bytes(one).max() == pytest.approx(tensor_bytes(other).max(), rel=0.01)
    assert one.persistent_bytes == other.persistent_bytes
    one.check()


@pytest.mark.parametrize("name", networks())
def test_measured_peak_is_the_allocators(name: str) -> None:
    trace = measured_trace(name)
    trace.check()
    assert trace.variation == ""
    assert trace.peak_bytes == pytest.approx(allocator_peak(name), rel=0.01)


@pytest.mark.parametrize("name", networks("vae"))  # its weights are most of what it holds
def test_memory_rises_in_the_forward_pass_and_falls_in_the_backward(name: str) -> None:
    held = tensor_bytes(measured_trace(name))
    assert held[0] < held.max() / 1.2
    assert held[-1] < held.max()
    assert 0.1 < held.argmax() / held.size < 0.95
