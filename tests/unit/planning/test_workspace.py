from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.planning.workspace import Algorithm, with_workspaces

SLOW, MIDDLE, FAST = Algorithm(4.0, 0), Algorithm(2.0, 30), Algorithm(1.0, 60)
TRACE = make_trace(
    [Op(writes=[0]), Op(writes=[1])], [Tensor(bytes=50, born=0, died=1), Tensor(bytes=25, born=1, died=1)]
)


def test_each_op_takes_the_fastest_algorithm_whose_workspace_fits_what_is_free() -> None:
    chosen = with_workspaces(TRACE, {0: (SLOW, MIDDLE, FAST), 1: (SLOW, MIDDLE, FAST)}, 110)
    assert chosen.ops.seconds.tolist() == [1.0, 2.0]
    assert chosen.held_bytes.tolist() == [110, 105]


def test_an_op_without_room_for_any_algorithm_is_named() -> None:
    with pytest.raises(ValueError, match="op 1 has 5 bytes free for its workspace, and its smallest takes 30"):
        with_workspaces(TRACE, {1: (MIDDLE, FAST)}, 80)
