"""The phases and the bytes held by kind over the course of a trace."""

from __future__ import annotations

import numpy as np

from builders import Op, Tensor, make_trace, training_trace
from neaptide.core.traces.trace import Kind, Phase
from neaptide.reporting.figures.trace_timeline import STACKING, PhaseSpan, held_by_kind, highest_ops, phase_spans


def test_the_stacking_order_has_every_kind_once() -> None:
    assert sorted(STACKING) == sorted(Kind)


def test_the_bytes_of_all_kinds_sum_to_the_bytes_held() -> None:
    trace = training_trace()
    held = held_by_kind(trace)
    assert held.sum(axis=0).tolist() == trace.held_bytes.tolist()
    assert held[STACKING.index(Kind.PARAMETER)].tolist() == [100, 100, 100, 100]
    assert held[STACKING.index(Kind.GRADIENT)].tolist() == [0, 0, 100, 100]
    assert held[STACKING.index(Kind.TEMPORARY)].tolist() == [0, 50, 7, 0]  # the 7 are scratch


def test_phases_have_the_times_of_their_ops() -> None:
    trace = training_trace(asynchronous=False)
    assert [span.phase for span in phase_spans(trace)] == [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    assert phase_spans(trace)[-1].end_seconds == trace.seconds


def test_a_short_phase_joins_the_phase_before_it() -> None:
    trace = make_trace(
        [
            Op(phase=Phase.FORWARD, seconds=1.0),
            Op(phase=Phase.INFERENCE, seconds=1e-6),
            Op(phase=Phase.FORWARD, seconds=1.0),
        ]
    )
    assert len(phase_spans(trace)) == 3
    assert phase_spans(trace, least_share=0.01) == [PhaseSpan(Phase.FORWARD, 0.0, trace.seconds)]


def test_a_short_high_op_is_found_in_its_own_column_only() -> None:
    ops = [Op(seconds=1.0), Op(seconds=1e-6), Op(seconds=1.0)]
    trace = make_trace(ops, [Tensor(bytes=5, born=1, died=1)])
    assert highest_ops(trace, 5).tolist() == [0, 0, 1, 2, 2]


def test_each_column_has_the_highest_of_its_own_ops() -> None:
    trace = make_trace([Op(seconds=1.0)] * 8, [Tensor(bytes=5, born=-1, died=8)])
    assert np.array_equal(highest_ops(trace, 8), np.arange(8))
