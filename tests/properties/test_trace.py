"""Traces against plain loops over their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from neaptide.core.traces.trace import Phase, Trace
from properties.strategies import traces


@given(traces())
def test_held_bytes_are_those_of_the_tensors_alive_and_the_scratch(trace: Trace) -> None:
    lives = list(
        zip(trace.tensors.born.tolist(), trace.tensors.died.tolist(), trace.tensors.bytes.tolist(), strict=True)
    )
    for position, scratch in enumerate(trace.ops.scratch_bytes.tolist()):
        alive = sum(size for born, died, size in lives if born <= position <= died)
        assert trace.held_bytes[position] == alive + scratch


@given(traces())
def test_ops_end_when_their_launch_has_passed_and_the_device_is_free(trace: Trace) -> None:
    launched = ended = 0.0
    for position, (host, device) in enumerate(zip(trace.ops.host_seconds, trace.ops.seconds, strict=True)):
        launched = (launched if trace.asynchronous else ended) + host
        ended = max(launched, ended) + device
        assert trace.end_seconds[position] == pytest.approx(ended, rel=1e-12, abs=1e-15)
    assert trace.seconds == trace.end_seconds[-1]


@given(traces())
def test_the_peak_is_persistent_and_ephemeral_and_the_top_of_the_curve(trace: Trace) -> None:
    assert trace.peak_bytes == trace.persistent_bytes + trace.ephemeral_bytes == trace.curve().peak
    assert trace.ephemeral_bytes >= 0
    assert trace.persistent_bytes == sum(
        size
        for size, died in zip(trace.tensors.bytes.tolist(), trace.tensors.died.tolist(), strict=True)
        if died == len(trace.ops)
    )


@given(traces())
def test_the_curve_lasts_as_long_as_the_iteration(trace: Trace) -> None:
    curve = trace.curve()
    assert curve.start_ns == 0
    # Exact to the nanosecond, except that an op shorter than one is given one.
    assert 0 <= curve.end_ns - round(trace.seconds * 1e9) <= len(trace.ops)


@given(traces())
def test_uses_are_found_by_looking_at_each_op(trace: Trace) -> None:
    for index in range(len(trace.tensors)):
        read = [op for op in range(len(trace.ops)) if index in trace.ops.reads[op]]
        written = [op for op in range(len(trace.ops)) if index in trace.ops.writes[op]]
        used = sorted({*read, *written})
        forward = [op for op in used if trace.ops.phase[op] == Phase.FORWARD]
        backward = [op for op in used if trace.ops.phase[op] == Phase.BACKWARD]
        assert trace.uses.producer[index] == min(written, default=-1)
        assert trace.uses.last_forward[index] == max(forward, default=-1)
        assert trace.uses.first_backward[index] == min(backward, default=-1)
        assert trace.uses.last[index] == max(used, default=-1)


@given(traces())
def test_the_light_share_is_between_zero_and_one(trace: Trace) -> None:
    assert 0 <= trace.light_share <= 1 + 1e-12
    assert trace.light.dtype == np.bool_


@given(traces())
def test_a_trace_made_of_consistent_rows_is_consistent(trace: Trace) -> None:
    trace.check()
