"""A trace from a stranger takes bounded memory and time, whatever it declares."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from neaptide.core.traces.trace_format import MOST_BODY_BYTES, TraceFormatError, decode, encode, try_decode
from tides import tide
from trace_bombs import bomb, file_of, small_header


@contextmanager
def at_most(most_bytes: int) -> Iterator[None]:
    """The work inside allocates no more than this at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def test_a_trace_that_declares_too_much_is_refused_before_it_is_decompressed() -> None:
    data = bomb(2 << 30, 32 << 20)
    with (
        at_most(8 << 20),
        pytest.raises(TraceFormatError, match=r"it declares \d+ bytes; at most 67108864 are allowed"),
    ):
        decode(data)


def test_a_trace_with_more_than_it_declares_is_refused_without_the_rest() -> None:
    data = file_of(small_header(), bytes(256 << 20))
    with at_most(8 << 20), pytest.raises(TraceFormatError, match="do not end where they should"):
        decode(data)


@pytest.mark.parametrize("batch", [-1, (1 << 32) + 1])
def test_a_batch_that_cannot_be_is_refused(batch: int) -> None:
    with pytest.raises(TraceFormatError, match="batch"):
        decode(file_of({**small_header(), "batch": batch}, b""))


def test_a_header_of_many_words_is_refused() -> None:
    with pytest.raises(TraceFormatError, match="its header is larger"):
        decode(file_of({**small_header(), "variation": "x" * (5 << 20)}, b""))


def test_a_trace_too_large_to_be_read_cannot_be_stored() -> None:
    small = tide("t", 3, 0.1)
    rows = MOST_BODY_BYTES // 40
    many = {
        name: np.resize(column, rows) if isinstance(column, np.ndarray) else replace(column, codes=np.zeros(rows, int))
        for name in small.tensors.__dataclass_fields__
        if (column := getattr(small.tensors, name)) is not None
    }
    with pytest.raises(ValueError, match="is too large to be stored"):
        encode(replace(small, tensors=type(small.tensors)(**many)))


@pytest.mark.parametrize("column", ["reads", "writes"])
def test_lists_without_offsets_are_refused(column: str) -> None:
    said = small_header()
    for each in said["ops"].values():
        for array in each[0]:
            array[1] = 0
    said["ops"][column] = [[["<i8", 0], ["<i8", 0]], None]
    assert isinstance(try_decode(file_of(said, b"")), TraceFormatError)
