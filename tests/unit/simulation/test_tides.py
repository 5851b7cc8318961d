"""The synthetic traces have the memory and the time that was asked for."""

from __future__ import annotations

import pytest

from neaptide.core.traces.trace import Phase
from tides import tide


@pytest.mark.parametrize("ops", [1, 2, 3, 5, 200, 777])
@pytest.mark.parametrize("inference", [False, True])
def test_a_tide_has_the_memory_and_the_time_asked_for(ops: int, inference: bool) -> None:
    trace = tide(ops=ops, seconds=0.5, persistent=1234, ephemeral=987_654, inference=inference, host_seconds=0.0)
    trace.check()
    assert len(trace.ops) == ops
    assert trace.persistent_bytes == 1234
    assert trace.ephemeral_bytes == 987_654
    assert trace.seconds == pytest.approx(0.5)


def test_a_tide_rises_in_the_forward_pass_and_falls_in_the_backward_one() -> None:
    trace = tide(ops=10, persistent=0, ephemeral=400)
    assert trace.held_bytes.tolist() == [100, 200, 300, 400, 400, 300, 200, 100, 0, 0]
    assert trace.ops.phase.tolist() == [Phase.FORWARD] * 4 + [Phase.BACKWARD] * 4 + [Phase.OPTIMIZER] * 2
