"""What one iteration does: bytes held, times and uses. Inconsistent traces are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import Op, Tensor, make_trace, training_trace
from neaptide.core.control.job import Job
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.trace import Phase, Trace


class TestColumns:
    """Strings and lists in arrays."""

    def test_each_distinct_word_is_stored_once(self) -> None:
        labels = Labels.of(["mm", "relu", "mm"])
        assert labels.words == ("mm", "relu")
        assert list(labels) == ["mm", "relu", "mm"]
        assert (len(labels), labels[-1]) == (3, "mm")

    def test_a_word_is_found_where_it_stands(self) -> None:
        labels = Labels.of(["mm", "relu", "mm"])
        assert labels.which("mm").tolist() == [0, 2]
        assert labels.which("conv").tolist() == []

    def test_lists_give_back_the_rows_they_were_made_of(self) -> None:
        rows = [[3, 1], [], [4]]
        lists = Lists.of(rows)
        assert [row.tolist() for row in lists] == rows
        assert lists[-1].tolist() == [4]
        assert lists[-3].tolist() == [3, 1]
        assert lists.owners().tolist() == [0, 0, 2]

    @pytest.mark.parametrize("position", [3, -4])
    def test_a_row_that_is_not_there_is_an_index_error(self, position: int) -> None:
        with pytest.raises(IndexError):
            Lists.of([[3, 1], [], [4]])[position]

    def test_a_column_made_of_no_rows_is_empty(self) -> None:
        assert len(Lists.of([])) == len(Labels.of([])) == 0
        assert Lists.of([[], []]).items.dtype == np.int64


class TestMemory:
    """Bytes over the course of the iteration."""

    def test_a_tensor_is_held_from_its_birth_to_its_death_both_included(self) -> None:
        trace = make_trace([Op()] * 4, [Tensor(bytes=5, born=1, died=2)])
        assert trace.held_bytes.tolist() == [0, 5, 5, 0]

    @pytest.mark.parametrize(
        ("born", "died", "held"),
        [
            (-1, -1, [0, 0, 0]),  # gone before the first op
            (-1, 0, [5, 0, 0]),
            (0, 0, [5, 0, 0]),
            (-1, 3, [5, 5, 5]),
            (2, 2, [0, 0, 5]),
            (2, 3, [0, 0, 5]),
        ],
    )
    def test_lifetimes_may_reach_over_both_ends(self, born: int, died: int, held: list[int]) -> None:
        assert make_trace([Op()] * 3, [Tensor(bytes=5, born=born, died=died)]).held_bytes.tolist() == held

    def test_scratch_is_held_by_its_op_alone(self) -> None:
        assert make_trace([Op(), Op(scratch_bytes=7), Op()]).held_bytes.tolist() == [0, 7, 0]

    def test_a_training_step_is_a_tide(self) -> None:
        trace = training_trace()
        assert trace.held_bytes.tolist() == [150, 200, 257, 200]
        assert (trace.persistent_bytes, trace.ephemeral_bytes, trace.peak_bytes) == (100, 157, 257)

    def test_a_tensor_that_outlives_the_iteration_is_persistent_even_if_born_in_it(self) -> None:
        trace = make_trace([Op()] * 2, [Tensor(bytes=5, born=-1, died=2), Tensor(bytes=3, born=1, died=2)])
        assert trace.persistent_bytes == 8
        assert trace.ephemeral_bytes == 0

    def test_a_tensor_from_before_the_iteration_that_dies_in_it_is_ephemeral(self) -> None:
        trace = make_trace([Op()] * 2, [Tensor(bytes=5, born=-1, died=1)])
        assert (trace.persistent_bytes, trace.ephemeral_bytes) == (0, 5)

    def test_the_curve_holds_each_ops_bytes_until_it_ends(self) -> None:
        assert training_trace(asynchronous=False).curve() == MemoryCurve(
            [0, 2_010_000, 3_020_000, 7_020_000, 8_020_000], [150, 200, 257, 200]
        )

    def test_the_curve_joins_ops_that_hold_the_same(self) -> None:
        trace = make_trace([Op(seconds=1e-9)] * 3, [Tensor(bytes=5, born=0, died=1)])
        assert trace.curve() == MemoryCurve([0, 2, 3], [5, 0])

    def test_the_curve_shows_even_an_op_of_no_time(self) -> None:
        trace = make_trace([Op(), Op(seconds=0, scratch_bytes=9), Op()])
        assert trace.curve().peak == trace.peak_bytes == 9


class TestTime:
    """When ops end, alone on the device."""

    def test_a_synchronous_host_and_its_device_take_turns(self) -> None:
        trace = make_trace([Op(seconds=2, host_seconds=1), Op(seconds=3, host_seconds=1)])
        assert trace.end_seconds.tolist() == [3, 7]

    def test_an_asynchronous_host_launches_while_the_device_works(self) -> None:
        ops = [Op(seconds=2, host_seconds=1), Op(seconds=3, host_seconds=1)]
        assert make_trace(ops, asynchronous=True).end_seconds.tolist() == [3, 6]

    def test_a_device_that_is_quicker_than_its_host_waits_for_each_launch(self) -> None:
        ops = [Op(seconds=1, host_seconds=4), Op(seconds=1, host_seconds=4)]
        assert make_trace(ops, asynchronous=True).end_seconds.tolist() == [5, 9]

    def test_the_iteration_lasts_until_its_last_op_ends(self) -> None:
        trace = training_trace()
        assert trace.seconds == trace.end_seconds[-1] == pytest.approx(8.01e-3)


def test_uses_say_when_each_tensor_is_written_and_read() -> None:
    uses = training_trace().uses
    assert uses.producer.tolist() == [3, -1, 0, 1, 2]
    assert uses.last_forward.tolist() == [0, 0, 1, 1, -1]
    assert uses.first_backward.tolist() == [-1, 2, 2, -1, 2]
    assert uses.last.tolist() == [3, 2, 2, 1, 3]


def test_the_producer_is_the_first_op_that_writes() -> None:
    trace = make_trace([Op(), Op(writes=[0]), Op(writes=[0, 0], reads=[0])], [Tensor(bytes=1, born=1, died=2)])
    assert (trace.uses.producer[0], trace.uses.last[0]) == (1, 2)


def test_inference_ops_are_neither_forward_nor_backward_uses() -> None:
    trace = make_trace([Op(phase=Phase.INFERENCE, reads=[0])], [Tensor(bytes=1, born=-1, died=1)])
    assert (trace.uses.last_forward[0], trace.uses.first_backward[0], trace.uses.last[0]) == (-1, -1, 0)


def test_light_ops_fill_at_most_half_of_the_device() -> None:
    trace = make_trace([Op(fill=0.5, seconds=1), Op(fill=0.51, seconds=2), Op(fill=0.0, seconds=1)])
    assert trace.light.tolist() == [True, False, True]
    assert trace.light_share == 0.5


def test_an_iteration_of_no_device_time_has_no_light_share() -> None:
    assert make_trace([Op(seconds=0, fill=0.1)]).light_share == 0.0


def test_every_array_of_a_trace_is_read_only() -> None:
    trace = training_trace()
    arrays = [trace.held_bytes, trace.end_seconds]
    for table in (trace.ops, trace.tensors, trace.uses):
        for name in table.__dataclass_fields__:
            match getattr(table, name):
                case Labels(_, codes):
                    arrays.append(codes)
                case Lists(offsets, items):
                    arrays += [offsets, items]
                case array:
                    arrays.append(array)
    assert len(arrays) == 2 + (2 + 7 + 4) + 7 + 4
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_traces_and_jobs_can_be_compared_and_kept_in_sets() -> None:
    one, other = training_trace(), training_trace()
    assert one == one
    assert one != other
    assert len({one, other}) == 2
    assert Job(name="a", trace=one) != Job(name="a", trace=other)
    assert len({Job(name="a", trace=one), Job(name="a", trace=one)}) == 1


def with_op(**columns: object) -> Trace:
    trace = training_trace()
    return replace(trace, ops=replace(trace.ops, **columns))  # type: ignore[arg-type]


def with_tensor(**columns: object) -> Trace:
    trace = training_trace()
    return replace(trace, tensors=replace(trace.tensors, **columns))  # type: ignore[arg-type]


def changed(table: str, column: str, position: int, value: Any) -> Trace:
    """The training trace with one entry of one column set to something else."""
    trace = training_trace()
    array = getattr(getattr(trace, table), column).copy()
    array[position] = value
    return (with_op if table == "ops" else with_tensor)(**{column: array})


def with_reads(*rows: list[int]) -> Trace:
    return with_op(reads=Lists.of(rows))


INCONSISTENT: dict[str, tuple[Callable[[], Trace], str]] = {
    "no op": (lambda: make_trace([]), "it has no op"),
    "a short column of ops": (lambda: with_op(seconds=np.zeros(3)), "column seconds has 3 rows, not 4"),
    "a long column of tensors": (lambda: with_tensor(saved=np.zeros(6, np.bool_)), "column saved has 6 rows, not 5"),
    "too few names": (lambda: with_op(name=Labels.of(["mm"])), "column name has 1 rows, not 4"),
    "too few reads": (lambda: with_reads([0], [1]), "column reads has 2 rows, not 4"),
    "no offsets": (lambda: with_op(reads=Lists(np.array([], np.int64), np.array([], np.int64))), "column reads"),
    "a code without a word": (
        lambda: with_op(name=Labels(("mm",), np.array([0, 0, 1, 0]))),
        "column name names an unknown word",
    ),
    "a negative code": (lambda: with_op(name=Labels(("mm",), np.array([0, -1, 0, 0]))), "column name names an unknown"),
    "a word twice": (
        lambda: with_op(name=Labels(("mm", "mm"), np.array([0, 1, 0, 0]))),
        "column name has a word twice",
    ),
    "offsets from one": (
        lambda: with_op(reads=Lists(np.array([1, 1, 1, 1, 1]), np.array([0]))),
        "column reads has bad offsets",
    ),
    "offsets that fall": (lambda: with_op(reads=Lists(np.array([0, 2, 1, 2, 2]), np.array([0, 1]))), "bad offsets"),
    "offsets that fall so far that the difference wraps around": (
        lambda: with_op(reads=Lists(np.array([0, 1 << 62, -(1 << 63), -2, 2]), np.array([0, 1]))),
        "bad offsets",
    ),
    "offsets that stop early": (
        lambda: with_op(reads=Lists(np.array([0, 1, 1, 1, 1]), np.array([0, 1]))),
        "bad offsets",
    ),
    "whole seconds": (lambda: with_op(seconds=np.zeros(4, np.int64)), "column seconds does not hold floats"),
    "short floats": (lambda: with_op(flops=np.zeros(4, np.float32)), "column flops does not hold floats"),
    "broken bytes": (lambda: with_tensor(bytes=np.zeros(5)), "column bytes does not hold integers"),
    "short integers": (lambda: with_tensor(born=np.zeros(5, np.int32)), "column born does not hold integers"),
    "signed phases": (lambda: with_op(phase=np.full(4, -1)), "column phase does not hold codes"),
    "words for phases": (lambda: with_op(phase=Labels.of("abcd")), "column phase does not hold codes"),
    "numbers for names": (lambda: with_op(name=np.zeros(4, np.int64)), "column name does not hold labels"),
    "numbers for reads": (lambda: with_op(reads=np.zeros(4, np.int64)), "column reads does not hold lists"),
    "broken items": (lambda: with_op(reads=Lists(np.zeros(5, np.int64), np.array([0.5]))), "does not hold lists"),
    "a table for a column": (lambda: with_op(fill=np.zeros((4, 1))), "column fill does not hold floats"),
    "an unknown phase": (lambda: changed("ops", "phase", 1, 4), "an op without a phase"),
    "an unknown kind": (lambda: changed("tensors", "kind", 1, 8), "a tensor without a kind"),
    "an op on the framework's memory": (lambda: changed("tensors", "kind", 0, 7), "an op on memory of the framework"),
    "memory of the framework that goes": (lambda: changed("tensors", "kind", 3, 7), "that does not outlive"),
    "a death before birth": (lambda: changed("tensors", "died", 3, 0), "a tensor that dies before it is born"),
    "a birth too early": (lambda: changed("tensors", "born", 0, -2), "a lifetime outside the iteration"),
    "a death too late": (lambda: changed("tensors", "died", 0, 5), "a lifetime outside the iteration"),
    "a negative size": (lambda: changed("tensors", "bytes", 0, -1), "a negative size"),
    "negative scratch": (lambda: changed("ops", "scratch_bytes", 0, -1), "a negative size"),
    "negative bytes moved": (lambda: changed("ops", "moved_bytes", 0, -1), "a negative size"),
    "a negative batch": (lambda: replace(training_trace(), batch=-1), "a negative size"),
    "negative seconds": (lambda: changed("ops", "seconds", 0, -1e-9), "a time that is not a time"),
    "endless seconds": (lambda: changed("ops", "seconds", 0, np.inf), "a time that is not a time"),
    "a host time that is no number": (lambda: changed("ops", "host_seconds", 0, np.nan), "a time that is not a time"),
    "endless work": (lambda: changed("ops", "flops", 0, np.inf), "a time that is not a time"),
    "a fill above one": (lambda: changed("ops", "fill", 0, 1.01), "a fill outside 0..1"),
    "a fill below zero": (lambda: changed("ops", "fill", 0, -0.01), "a fill outside 0..1"),
    "a fill that is no number": (lambda: changed("ops", "fill", 0, np.nan), "a fill outside 0..1"),
    "a flag of two": (lambda: with_tensor(saved=np.full(5, 2, np.uint8).view(np.bool_)), "neither true nor false"),
    "bytes that overflow when added": (lambda: changed("tensors", "bytes", 0, 1 << 62), "amounts too large to add"),
    "seconds that overflow as nanoseconds": (lambda: changed("ops", "seconds", 0, 1e10), "amounts too large to add"),
    "a read of an unknown tensor": (lambda: with_reads([5], [], [], []), "an op on an unknown tensor"),
    "a read of a negative tensor": (lambda: with_reads([-1], [], [], []), "an op on an unknown tensor"),
    "a write of an unknown tensor": (lambda: with_op(writes=Lists.of([[], [5], [], []])), "an op on an unknown tensor"),
    "a read before birth": (lambda: with_reads([4], [], [], []), "an op on a tensor that is not alive"),
    "a read after death": (lambda: with_reads([], [], [], [3]), "an op on a tensor that is not alive"),
    "a write after death": (lambda: with_op(writes=Lists.of([[], [], [], [3]])), "an op on a tensor that is not alive"),
}


@pytest.mark.parametrize("what", INCONSISTENT)
def test_check_refuses_an_inconsistent_trace(what: str) -> None:
    build, message = INCONSISTENT[what]
    with pytest.raises(ValueError, match=message) as caught:
        build().check()
    assert str(caught.value).startswith("not a trace: ")
    assert len(str(caught.value).splitlines()) == 1


def test_check_accepts_consistent_traces() -> None:
    training_trace().check()
    make_trace([Op()]).check()  # no tensor at all


def test_a_value_that_is_no_column_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"not a column: \[1, 2, 3, 4\]"):
        with_op(seconds=[1, 2, 3, 4])
