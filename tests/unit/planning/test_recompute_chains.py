"""What comes back along with a recomputed tensor."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.apply import apply
from neaptide.planning.plan import Gap, Plan, Return
from steps import chain_step, device


def gone(tensor: int, after: int, before: int, back: Return = Return.RECOMPUTE) -> Gap:
    return Gap(tensor=tensor, after=after, before=before, back=back)


def test_an_absent_source_of_a_recomputation_comes_back_and_stays() -> None:
    trace = chain_step([10] * 4)  # tensor 1 is used by ops 1, 2 and 6, tensor 2 by ops 2, 3 and 5
    chains = RecomputeChains(trace)
    found = chains.complete([gone(1, 2, 6), gone(2, 3, 5)])
    assert found == (gone(1, 2, 5), gone(2, 3, 5))


def test_with_stay_false_an_absent_source_is_released_again_and_recomputed_twice() -> None:
    chains = RecomputeChains(chain_step([10] * 4))
    found = chains.complete([gone(1, 2, 6), gone(2, 3, 5)], stay=False)
    assert found == (gone(1, 2, 5), gone(2, 3, 5), gone(1, 4, 6))


def test_a_swapped_source_of_a_recomputation_is_copied_in_earlier() -> None:
    chains = RecomputeChains(chain_step([10] * 4))
    found = chains.complete([gone(1, 2, 6, Return.SWAP), gone(2, 3, 5)])
    assert found == (gone(1, 2, 5, Return.SWAP), gone(2, 3, 5))


def in_place(name: str = "aten::mm", rewritten: bool = False) -> Trace:
    """Op 0 makes tensor 0, op 1 makes tensor 1 of it, op 2 rewrites tensor 1 (or 0) in place; then backward."""
    return make_trace(
        [
            Op(name=name, writes=(0,)),
            Op(name="aten::mm", reads=(0,), writes=(1,)),
            Op(name="aten::relu_", reads=(0,) if rewritten else (1,), writes=(0,) if rewritten else (1,)),
            Op(reads=(1,), writes=(2,)),
            Op(phase=Phase.BACKWARD, reads=(2,)),
            Op(phase=Phase.BACKWARD, reads=(1, 0) if rewritten else (1,)),
        ],
        [
            Tensor(bytes=5, born=0, died=5 if rewritten else 1, kind=Kind.ACTIVATION),
            Tensor(bytes=5, born=1, died=5, kind=Kind.ACTIVATION),
            Tensor(bytes=5, born=3, died=4, kind=Kind.ACTIVATION),
        ],
    )


def test_a_dead_source_comes_back_only_for_the_recomputation() -> None:
    trace = in_place()
    found = RecomputeChains(trace).complete([gone(1, 3, 5)])
    assert found == (gone(0, 1, 5), gone(1, 3, 5))
    planned = apply(trace, Plan(planner="", gaps=found), device())
    names = [planned.ops.name[row] for row in range(len(planned.ops))]
    assert names[5:8] == ["recompute:aten::mm", "recompute:aten::mm", "recompute:aten::relu_"]


def test_all_ops_that_wrote_a_tensor_recompute_it() -> None:
    assert RecomputeChains(in_place()).ops(1, 5) == {0, 1, 2}


def test_a_tensor_cannot_be_recomputed_through_a_random_op() -> None:
    chains = RecomputeChains(in_place("aten::bernoulli"))
    assert chains.ops(1, 5) is None
    with pytest.raises(CannotRecomputeError, match="op 0 gives another result each time"):
        chains.complete([gone(1, 3, 5)])


def test_a_tensor_cannot_be_recomputed_from_a_source_that_was_overwritten() -> None:
    with pytest.raises(CannotRecomputeError, match="tensor 0 was overwritten"):
        RecomputeChains(in_place(rewritten=True)).complete([gone(1, 3, 5)])


@pytest.mark.parametrize(("tensor", "before"), [(1, 1), (1, 0), (2, 3)])
def test_a_tensor_cannot_be_recomputed_before_the_op_that_makes_it(tensor: int, before: int) -> None:
    chains = RecomputeChains(in_place())
    with pytest.raises(CannotRecomputeError, match=f"no op makes tensor {tensor} before op {before}"):
        chains.made([tensor], before, lambda _: False)


def test_an_input_that_no_op_writes_cannot_be_recomputed() -> None:
    trace = make_trace([Op(reads=(0,))], [Tensor(bytes=5, born=-1, died=0, kind=Kind.INPUT)])
    with pytest.raises(CannotRecomputeError, match="no op makes tensor 0 before op 1"):
        RecomputeChains(trace).made([0], 1, lambda _: False)
