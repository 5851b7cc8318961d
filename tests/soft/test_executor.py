"""The executor's parts: pinned host memory, codes, and programs that refuse what they cannot do."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Kind, Phase
from neaptide.planning.executor.compile.compiler import compile_plan
from neaptide.planning.executor.compile.program import Verb
from neaptide.planning.executor.compile.recording import Call, Recording, Reference, Save, TensorView
from neaptide.planning.executor.run.codecs import DECODE, ENCODE
from neaptide.planning.executor.run.copying import Copier
from neaptide.planning.executor.run.host_pool import HostPool
from neaptide.planning.plan import Gap, Plan, Return
from soft_plans import small_trace

KIB = 1 << 10


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40 * KIB)), max_size=60))
@settings(max_examples=40, deadline=None)
def test_blocks_never_overlap_and_are_all_given_back(requests: list[tuple[bool, int]]) -> None:
    pool = HostPool(piece_bytes=64 * KIB)
    passed = torch.accelerator.current_stream(torch.device("soft")).record_event()
    taken = []
    for give, size in requests:
        if give and taken:
            pool.give(taken.pop(size % len(taken)), passed)
            continue
        block = pool.take(size)
        assert block.bytes >= size
        for other in taken:
            apart = other.piece != block.piece or other.start + other.bytes <= block.start
            assert apart or block.start + block.bytes <= other.start
        taken.append(block)
    while taken:
        pool.give(taken.pop(), passed)
    assert pool.taken_bytes == 0
    assert sum(block.bytes for block in pool._free) == pool.pinned_bytes
    assert len(pool._free) == len(pool._pieces)  # all joined again


def test_joined_blocks_are_written_after_all_their_uses() -> None:
    pool = HostPool(piece_bytes=64 * KIB)
    blocks = [pool.take(KIB), pool.take(KIB)]
    streams = [torch.Stream(device="soft") for _ in blocks]
    one = torch.ones(4, device="soft")
    one.add(one)  # the first of its kind runs at once
    torch.soft.close_execution_gate()
    try:
        for block, stream in zip(blocks, streams, strict=True):
            with stream:
                one.add(one)
            pool.give(block, stream.record_event())
        assert len(pool.take(2 * KIB).free_after) == 2
    finally:
        torch.soft.open_execution_gate()
        torch.soft.synchronize()


def test_a_storage_comes_back_from_the_host_as_it_was() -> None:
    copier = Copier(torch.device("soft"))
    for size in (8, 4097, 3 << 20):
        values = torch.randint(256, (size,), dtype=torch.uint8)
        there = values.to("soft")
        journey = copier.send(there)
        copier.await_sent(journey)
        there.zero_()  # as the next owner of its memory would
        copier.fetch(journey)
        assert torch.equal(copier.receive(journey).cpu(), values)
    assert copier.pool.taken_bytes == 0


@pytest.mark.parametrize("count", [1, 7, 8, 9, (1 << 18) + 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_codes_restore_tensors_of_any_length_and_type(count: int, dtype: torch.dtype) -> None:
    values = torch.randn(count, generator=torch.Generator().manual_seed(0)).clamp_(min=0).to(dtype)
    values[0] = -0.0
    there = values.to("soft")
    sparse = DECODE["sparse"](ENCODE["sparse"](there)).cpu()
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    assert torch.equal(sparse.view(whole), values.view(whole))  # the sign of zero, too
    signs = ENCODE["bit"](there)
    assert torch.equal(DECODE["bit"](signs).cpu() > 0, values > 0)
    assert signs.bytes == -(-count // 8)
    half = DECODE["half"](ENCODE["half"](there)).cpu()
    assert half.dtype is dtype
    assert torch.allclose(half.float(), values.float(), rtol=1e-2)


# Op 0 makes tensor 1 from the parameter, op 1 tensor 2 from it, op 2 the loss; then comes the backward pass.
SIZE = TensorView(torch.float32, torch.Size((256,)), (1,), 0)
SOFT = torch.device("soft")


def recording(**changes: object) -> Recording:
    def call(function: object, *tensors: int) -> Call:
        references = tuple(Reference(tensor, SIZE, SOFT) for tensor in tensors)
        return Call(function, references[:-1], {}, references[-1:])

    values: dict[str, object] = {
        "calls": {0: call(torch.ops.aten.exp.default, 0, 1), 1: call(torch.ops.aten.tanh.default, 1, 2)},
        # Tensor 1 is saved by op 0 and asked for last, tensor 2 by op 1.
        "saves": (Save(1, SIZE, 0, (4,), 5), Save(2, SIZE, 1, (3,), 4)),
        "op_of_moment": (1, 2, 3, 4, 5),
        "only_saved_from": {1: 1, 2: 2},
        "persistent": {0: "weight"},
        **changes,
    }
    return Recording(**values)  # type: ignore[arg-type]


def trace(**changes: object):  # type: ignore[no-untyped-def]
    return small_trace(
        reads=[[0], [1], [2], [2], [2], [1]],
        writes=[[1], [2], [3], [4], [5], [6]],
        phases=[Phase.FORWARD] * 3 + [Phase.BACKWARD] * 3,
        kinds=[Kind.PARAMETER, *[Kind.ACTIVATION] * 2, *[Kind.TEMPORARY] * 4],
        **changes,
    )


def gap(tensor: int, after: int, before: int, back: Return = Return.RECOMPUTE) -> Gap:
    return Gap(tensor=tensor, after=after, before=before, back=back)


def program_of(gaps: list[Gap], **changes: object):  # type: ignore[no-untyped-def]
    return compile_plan(trace(), Plan(planner="hand", gaps=tuple(gaps)), recording(**changes), find_device("soft"))


def test_a_gap_begins_once_the_program_lets_go_of_its_tensor() -> None:
    program = program_of([gap(1, 1, 5)])
    assert not program.refused
    assert program.plan.gaps == (gap(1, 1, 5),)
    assert {moment: [step.verb for step in steps] for moment, steps in program.steps.items()} == {1: [Verb.DROP]}
    chain = program.chains[1, 5]
    assert [rerun.op for rerun in chain.reruns] == [0]
    assert chain.stays == {1}
    late = program_of([gap(1, 1, 5)], only_saved_from={1: 3, 2: 2})
    assert late.plan.gaps == (gap(1, 3, 5),)  # a tensor cannot leave before the program lets go of it


def test_a_swap_is_sent_released_and_fetched_in_this_order() -> None:
    program = program_of([gap(1, 1, 5, Return.SWAP)])
    verbs = [step.verb for moment in sorted(program.steps) for step in program.steps[moment]]
    assert verbs == [Verb.SEND, Verb.RELEASE, Verb.FETCH]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"only_saved_from": {2: 2}}, "the program holds it too"),
        ({"calls": {}}, "was not recorded"),
        ({"persistent": {}}, "reads tensor 0, which nothing keeps"),
        ({"saves": (Save(2, SIZE, 1, (3,), 4),)}, "autograd does not save it"),
        ({"only_saved_from": {1: 4, 2: 2}}, "does not ask for it in time"),
    ],
)
def test_a_gap_that_cannot_be_carried_out_is_refused_with_the_reason(changes: dict[str, object], reason: str) -> None:
    program = program_of([gap(1, 1, 5)], **changes)
    assert not program.plan.gaps
    assert not program.steps
    assert reason in program.refused[0].reason


def test_an_op_that_draws_random_numbers_is_not_run_again() -> None:
    reference = Reference(0, SIZE, SOFT)
    drawn = Call(torch.ops.aten.bernoulli.default, (reference,), {}, (Reference(1, SIZE, SOFT),))
    program = program_of([gap(1, 1, 5)], calls={0: drawn})
    assert "draws random numbers" in program.refused[0].reason
