"""Any plan that is accepted gives a trace in which every op finds what it reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.plan import Plan, Return
from properties.plans import DEVICE, any_plans, training_traces


def accepted(trace: Trace, plan: Plan) -> Trace:
    try:
        return apply(trace, plan, DEVICE)
    except ValueError:
        assume(False)
        raise


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_under_an_accepted_plan_every_tensor_is_present_when_an_op_uses_it(data: st.DataObject) -> None:
    trace = data.draw(training_traces())
    planned = accepted(trace, data.draw(any_plans(trace)))
    planned.check()  # an op on a tensor that is not alive is an error
    assert planned.seconds >= trace.seconds * (1 - 1e-9)


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_each_op_of_the_trace_runs_once_in_order_on_tensors_of_the_same_sizes(data: st.DataObject) -> None:
    trace = data.draw(training_traces())
    planned = accepted(trace, data.draw(any_plans(trace)))
    inserted = ("recompute:", "wait:", "encode:", "decode:")
    own = [row for row in range(len(planned.ops)) if not planned.ops.name[row].startswith(inserted)]
    assert len(own) == len(trace.ops)
    for position, row in enumerate(own):
        for column in ("reads", "writes"):
            then, now = getattr(trace.ops, column)[position], getattr(planned.ops, column)[row]
            assert trace.tensors.bytes[then].tolist() == planned.tensors.bytes[now].tolist()


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_a_tensor_that_did_not_come_from_the_host_is_written_before_it_is_read(data: st.DataObject) -> None:
    trace = data.draw(training_traces())
    planned = accepted(trace, data.draw(any_plans(trace, ways=(Return.RECOMPUTE, Return.DECODE))))
    for tensor in range(len(planned.tensors)):
        touching = [
            row
            for row in range(len(planned.ops))
            if tensor in planned.ops.reads[row] or tensor in planned.ops.writes[row]
        ]
        assert not touching or tensor in planned.ops.writes[touching[0]]


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_the_summary_agrees_with_the_planned_trace(data: st.DataObject) -> None:
    trace = data.draw(training_traces())
    plan = data.draw(any_plans(trace))
    planned = accepted(trace, plan)
    summary = summary_of(trace, plan, DEVICE)
    assert summary.peak_bytes == planned.peak_bytes
    assert summary.seconds == pytest.approx(planned.seconds)
    waits = planned.ops.name.which("wait:swap")
    assert summary.waited_seconds == pytest.approx(planned.ops.seconds[waits].sum())
    assert (planned.ops.fill[waits] == 0).all()
    again = [row for row in range(len(planned.ops)) if planned.ops.name[row].startswith("recompute:")]
    assert summary.reruns == len(again)
    assert (planned.ops.phase[again] == Phase.BACKWARD).all()


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(training_traces())
def test_a_plan_without_gaps_changes_nothing(trace: Trace) -> None:
    planned = apply(trace, Plan(planner="none"), find_device("V100"))
    assert planned.seconds == pytest.approx(trace.seconds)
    assert np.array_equal(planned.held_bytes, trace.held_bytes)
    assert planned.persistent_bytes == trace.persistent_bytes
