"""For every network of the zoo: the estimate, the measurement and the allocator say the same."""

from __future__ import annotations

import gc
from functools import cache

import numpy as np
import pytest
from torch.profiler import ProfilerActivity, profile, record_function

from neaptide import estimate, measure, models
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace

pytestmark = pytest.mark.networks


@pytest.fixture(scope="module", params=models.names())
def name(request: pytest.FixtureRequest) -> str:
    """A network. All tests of one run after each other, so its traces are made once."""
    return str(request.param)


@cache
def measured_trace(name: str) -> Trace:
    return measure(models.build(name, scale="tiny").step, name=name, timed=1)


@cache
def estimated_trace(name: str) -> Trace:
    return estimate(lambda: models.build(name, scale="tiny").step, find_device("V100"), name=name)


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


def test_estimate_and_measurement_agree(name: str) -> None:
    one, other = estimated_trace(name), measured_trace(name)
    assert op_names(one) == op_names(other)
    assert tensor_bytes(one).max() == pytest.approx(tensor_bytes(other).max(), rel=0.01)
    assert one.persistent_bytes == other.persistent_bytes
    one.check()


def test_measured_peak_is_the_allocators(name: str) -> None:
    trace = measured_trace(name)
    trace.check()
    assert trace.variation == ""
    assert trace.peak_bytes == pytest.approx(allocator_peak(name), rel=0.01)


def test_memory_rises_in_the_forward_pass_and_falls_in_the_backward(name: str) -> None:
    if name == "vae":
        pytest.skip("its weights are most of what it holds")
    held = tensor_bytes(measured_trace(name))
    assert held[0] < held.max() / 1.2
    assert held[-1] < held.max()
    assert 0.1 < held.argmax() / held.size < 0.95
