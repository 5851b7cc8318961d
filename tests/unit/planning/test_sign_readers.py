"""When one bit per element is enough for a tensor."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Phase
from neaptide.planning.analysis.sign_readers import only_signs_are_read
from neaptide.planning.plan import Gap, Plan, Return

SIGN = "aten::threshold_backward"


def gap(tensor: int, back: Return, codec: str | None = None) -> Gap:
    return Gap(tensor=tensor, after=1, before=2, back=back, codec=codec)


def answer(last: str, *others: Gap) -> bool:
    """Tensor 1 is written by op 0 and read by op 1, which makes tensor 2, and by op 2, named `last`."""
    ops = [Op(writes=(1,)), Op(reads=(1,), writes=(2,)), Op(name=last, phase=Phase.BACKWARD, reads=(1, 2))]
    trace = make_trace(ops, [Tensor(bytes=8, born=-1, died=2), *(Tensor(bytes=8, born=at, died=2) for at in (0, 1))])
    small = gap(1, Return.DECODE, "bit")
    return only_signs_are_read(trace, Plan(planner="made", gaps=(small, *others)), small)


@pytest.mark.parametrize(("last", "enough"), [(SIGN, True), ("aten.mm", False)])
def test_a_bit_is_enough_if_all_later_ops_read_the_sign(last: str, enough: bool) -> None:
    assert answer(last) is enough


def test_a_bit_is_not_enough_if_an_op_that_reads_the_values_runs_again() -> None:
    assert not answer(SIGN, gap(2, Return.RECOMPUTE))
    assert answer(SIGN, gap(0, Return.RECOMPUTE))  # which no op that reads tensor 1 has made
    assert answer(SIGN, gap(2, Return.SWAP))
