"""Any trace is read back from its file; any other file gives a consistent trace, or one line that says why not."""

from __future__ import annotations

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from builders import columns_of, training_trace
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import MAGIC, VERSION, TraceFormatError, decode, encode
from properties.strategies import traces

FIXED = struct.Struct("<IQI")
FILE = encode(training_trace())
HEAD_LENGTH = FIXED.unpack_from(FILE, len(MAGIC))[1]
HEAD = FILE[len(MAGIC) + FIXED.size :][:HEAD_LENGTH]
COLUMNS = zlib.decompress(FILE[len(MAGIC) + FIXED.size + HEAD_LENGTH :])


def assert_sound_or_refused(data: bytes) -> None:
    """The bytes are refused in one line, or they are a consistent trace."""
    try:
        trace = decode(data)
    except TraceFormatError as error:
        message = str(error)
    else:
        trace.check()
        assert trace.curve().peak == trace.peak_bytes
        assert trace.uses.last.size == len(trace.tensors)
        assert columns_of(decode(encode(trace))) == columns_of(trace)
        message = "sound"
    assert len(message.splitlines()) == 1


def file_of(head: bytes, columns: bytes) -> bytes:
    rest = head + zlib.compress(columns, level=1)
    return MAGIC + FIXED.pack(VERSION, len(head), zlib.crc32(rest)) + rest


@given(traces())
def test_any_trace_is_read_back_exactly(trace: Trace) -> None:
    assert columns_of(decode(encode(trace))) == columns_of(trace)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    assert_sound_or_refused(data)
    assert_sound_or_refused(MAGIC + data)
    assert_sound_or_refused(MAGIC + VERSION.to_bytes(4, "little") + data)


edits = st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=3)


def edited(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """The data with some of its bytes overwritten, no longer than before."""
    for position, new in changes:
        position %= len(data)
        data = (data[:position] + new + data[position + len(new) :])[: len(data)]
    return data


@given(edits)
def test_a_forged_header_with_a_right_checksum_is_sound_or_refused(changes: list[tuple[int, bytes]]) -> None:
    assert_sound_or_refused(file_of(edited(HEAD, changes), COLUMNS))


@given(edits)
def test_forged_columns_with_a_right_checksum_are_sound_or_refused(changes: list[tuple[int, bytes]]) -> None:
    assert_sound_or_refused(file_of(HEAD, edited(COLUMNS, changes)))
