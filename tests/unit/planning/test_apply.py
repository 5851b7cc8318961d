"""What a plan costs, in numbers small enough to check by hand."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.plan import Gap, Plan, Return

DEVICE = DeviceSpec(
    name="plain",
    memory_bytes=1000,
    sms=1,
    flops=1.0,
    matrix_flops=1.0,
    half_flops=1.0,
    bandwidth=100.0,
    bandwidth_efficiency=1.0,
    link_bandwidth=10.0,
    kernel_seconds=0.01,
    host_seconds=0.001,
)
F, B = Phase.FORWARD, Phase.BACKWARD


def chain(*, asynchronous: bool = True) -> Trace:
    """Three layers: op i makes tensor i of 20 bytes from tensor i - 1 in one second; the backward pass reads them."""
    ops = [Op(name=f"layer{i}", phase=F, reads=[i - 1] if i else [], writes=[i]) for i in range(3)]
    ops += [Op(name=f"back{i}", phase=B, reads=[i]) for i in (2, 1, 0)]
    tensors = [Tensor(bytes=20, born=i, died=5 - i, kind=Kind.ACTIVATION, saved=True) for i in range(3)]
    return make_trace(ops, tensors, asynchronous=asynchronous)


def names(trace: Trace) -> list[str]:
    return [trace.ops.name[row] for row in range(len(trace.ops))]


def planned(*gaps: Gap, trace: Trace | None = None) -> Trace:
    result = apply(trace or chain(), Plan(planner="test", gaps=gaps), DEVICE)
    result.check()
    return result


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_swapped_tensor_is_held_during_its_copies_and_an_op_waits_for_a_late_copy_in(asynchronous: bool) -> None:
    swap = Gap(tensor=0, after=1, before=5, back=Return.SWAP, fetch=4)
    result = planned(swap, trace=chain(asynchronous=asynchronous))
    # Tensor 0 is copied out from 2 s to 4 s, so ops 2 and 3 hold it. Its copy in, from 4 s to 6 s, is a second late
    # for op 5.
    assert names(result) == ["layer0", "layer1", "layer2", "back2", "back1", "wait:swap", "back0"]
    assert result.held_bytes.tolist() == [20, 40, 60, 60, 40, 20, 20]
    assert result.ops.seconds.tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert result.ops.fill[5] == 0


def test_an_op_named_by_gone_waits_until_the_copy_out_has_ended() -> None:
    result = planned(Gap(tensor=0, after=1, before=5, back=Return.SWAP, fetch=5, gone=2))
    assert names(result) == ["layer0", "layer1", "wait:swap", "layer2", "back2", "back1", "wait:swap", "back0"]
    assert result.held_bytes.tolist() == [20, 40, 40, 40, 40, 20, 20, 20]
    assert result.seconds == pytest.approx(6 + 2 + 2)


def test_without_a_fetch_a_copy_in_begins_as_late_as_is_in_time() -> None:
    trace = chain()
    early = apply(trace, Plan(planner="test", gaps=(Gap(tensor=0, after=1, before=5, back=Return.SWAP),)), DEVICE)
    # The copy in should begin 2 s before op 5, in op 3 at 3 s. But the copy out ends only at 4 s, so it begins then.
    assert early.seconds == pytest.approx(7)
    fast = apply(
        trace,
        Plan(planner="test", gaps=(Gap(tensor=0, after=1, before=5, back=Return.SWAP),)),
        DeviceSpec(**{**{f: getattr(DEVICE, f) for f in DEVICE.__dataclass_fields__}, "link_bandwidth": 20.0}),
    )
    assert fast.seconds == pytest.approx(6)
    assert fast.held_bytes.tolist() == [20, 40, 60, 40, 40, 20]


def test_copies_of_one_direction_run_one_after_another() -> None:
    gaps = [Gap(tensor=t, after=2, before=b, back=Return.SWAP, fetch=b) for t, b in ((0, 5), (1, 4))]
    result = planned(*gaps)
    # Tensor 1 is needed first: its copy out ends at 5 s, its copy in at 7 s. The copy out of tensor 0 ends at 7 s; its
    # copy in runs from 8 s to 10 s.
    assert summary_of(chain(), Plan(planner="test", gaps=tuple(gaps)), DEVICE).swapped_bytes == 40
    assert result.end_seconds.tolist() == [1, 2, 3, 4, 7, 8, 10, 11]


def test_a_recomputation_runs_the_producing_op_again_and_needs_its_inputs_present() -> None:
    result = planned(Gap(tensor=1, after=2, before=4, back=Return.RECOMPUTE))
    assert names(result) == ["layer0", "layer1", "layer2", "back2", "recompute:layer1", "back1", "back0"]
    assert result.ops.phase[4] == Phase.BACKWARD
    assert result.held_bytes.tolist() == [20, 40, 60, 40, 40, 40, 20]
    absent = Gap(tensor=0, after=1, before=5, back=Return.RECOMPUTE)
    with pytest.raises(
        ValueError, match=r"op 1 \(layer1\), run again before op 4, would use tensor 0, which is absent"
    ):
        planned(Gap(tensor=1, after=2, before=4, back=Return.RECOMPUTE), absent)


def test_a_tensor_that_is_back_only_for_a_recomputation_is_released_before_the_op() -> None:
    first = Gap(tensor=0, after=1, before=4, back=Return.RECOMPUTE)
    again = Gap(tensor=0, after=3, before=5, back=Return.RECOMPUTE)
    result = planned(Gap(tensor=1, after=2, before=4, back=Return.RECOMPUTE), first, again)
    assert names(result)[4:] == ["recompute:layer0", "recompute:layer1", "back1", "recompute:layer0", "back0"]
    assert result.held_bytes.tolist() == [20, 40, 40, 20, 20, 40, 20, 20, 20]


def test_an_op_that_would_read_an_absent_tensor_is_named() -> None:
    with pytest.raises(ValueError, match=r"op 2 \(layer2\) would use tensor 1, which is absent then"):
        planned(Gap(tensor=1, after=1, before=4, back=Return.RECOMPUTE))


def test_a_tensor_written_in_place_is_recomputed_by_all_ops_that_wrote_it() -> None:
    ops = [
        Op(name="norm", phase=F, writes=[0]),
        Op(name="relu_", phase=F, reads=[0], writes=[0]),
        Op(name="conv", phase=F, reads=[0], writes=[1]),
        Op(name="back", phase=B, reads=[0, 1]),
    ]
    tensors = [Tensor(bytes=9, born=0, died=3, kind=Kind.ACTIVATION), Tensor(bytes=1, born=2, died=3)]
    result = planned(Gap(tensor=0, after=2, before=3, back=Return.RECOMPUTE), trace=make_trace(ops, tensors))
    assert names(result)[3:] == ["recompute:norm", "recompute:relu_", "back"]


def test_an_op_cannot_run_again_on_an_input_that_was_overwritten() -> None:
    ops = [
        Op(name="norm", phase=F, writes=[0]),
        Op(name="scale", phase=F, reads=[0], writes=[1]),
        Op(name="relu_", phase=F, reads=[0], writes=[0]),
        Op(name="back", phase=B, reads=[0, 1]),
    ]
    tensors = [Tensor(bytes=9, born=0, died=3, kind=Kind.ACTIVATION), Tensor(bytes=1, born=1, died=3)]
    with pytest.raises(ValueError, match="op 1 cannot run again before op 3: tensor 0 was overwritten in between"):
        planned(Gap(tensor=1, after=1, before=3, back=Return.RECOMPUTE), trace=make_trace(ops, tensors))


def test_results_of_a_rerun_that_no_gap_asks_for_are_its_scratch() -> None:
    ops = [
        Op(name="norm", phase=F, writes=[0, 1, 2], reads=[2]),
        Op(name="back", phase=B, reads=[0, 1]),
        Op(name="back", phase=B, reads=[0, 1]),
    ]
    tensors = [
        Tensor(bytes=20, born=0, died=2, kind=Kind.ACTIVATION),
        Tensor(bytes=3, born=0, died=2, kind=Kind.ACTIVATION),
        Tensor(bytes=5, born=-1, died=3, kind=Kind.BUFFER),  # running statistics: the executor gives reruns a copy
    ]
    result = planned(Gap(tensor=0, after=1, before=2, back=Return.RECOMPUTE), trace=make_trace(ops, tensors))
    assert result.ops.scratch_bytes.tolist() == [0, 0, 3, 0]
    assert result.held_bytes.tolist() == [28, 28, 31, 28]


def test_a_code_is_held_while_its_tensor_is_absent_and_encoding_and_decoding_take_time() -> None:
    result = planned(Gap(tensor=0, after=1, before=5, back=Return.DECODE, codec="half"))
    assert names(result) == ["layer0", "layer1", "encode:half", "layer2", "back2", "back1", "decode:half", "back0"]
    assert result.held_bytes.tolist() == [20, 40, 50, 50, 50, 30, 30, 20]
    assert result.ops.seconds[2] == result.ops.seconds[6] == pytest.approx(30 / 100)


def test_a_gap_that_ends_at_the_number_of_ops_releases_the_tensor_for_good() -> None:
    ops = [Op(phase=F, writes=[0]), Op(phase=F, reads=[0]), Op(phase=B), Op(phase=B)]
    trace = make_trace(ops, [Tensor(bytes=7, born=0, died=3)])
    result = planned(Gap(tensor=0, after=1, before=4, back=Return.RECOMPUTE), trace=trace)
    assert result.held_bytes.tolist() == [7, 7, 0, 0]


@pytest.mark.parametrize(
    ("gap", "why"),
    [
        (Gap(tensor=3, after=1, before=4, back=Return.SWAP), "tensor 3 is none of the 3 tensors"),
        (Gap(tensor=0, after=4, before=4, back=Return.SWAP), "has no gap there"),
        (Gap(tensor=2, after=1, before=3, back=Return.SWAP), "is released before it is made"),
        (Gap(tensor=0, after=1, before=5, back=Return.SWAP, fetch=1), "is fetched outside its gap"),
        (Gap(tensor=0, after=1, before=5, back=Return.SWAP, gone=1), "is waited for outside its gap"),
        (Gap(tensor=0, after=1, before=5, back=Return.DECODE), "comes back by decode with codec None"),
        (Gap(tensor=0, after=1, before=6, back=Return.SWAP), "cannot be released for good"),
    ],
)
def test_impossible_gaps_are_refused(gap: Gap, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        planned(gap)
