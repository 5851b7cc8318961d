"""A trace as bytes, and back: one line of identity, a header, and the columns.

    magic, version (u32), header length (u64), CRC-32 of all that follows (u32), header (msgpack), columns (zlib)

All numbers are little-endian. A trace contains no code, so reading a trace from a stranger executes nothing. What a
trace may take in memory is bounded whatever it declares, so reading one takes a second at most.
"""

from __future__ import annotations

import struct
import zlib
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Ops, Tensors, Trace

MAGIC = b"NEAPTIDE-TRACE\n"
VERSION = 1
MOST_HEADER_BYTES = 4 << 20
MOST_BODY_BYTES = 64 << 20  # not compressed: half a million ops
MOST_SAMPLES = 1 << 32  # of one iteration
_Table = TypeVar("_Table", Ops, Tensors)
_FIXED = struct.Struct("<IQI")
_ITEM_BYTES = {"<i8": 8, "<f8": 8, "|u1": 1, "|b1": 1}


class TraceFormatError(ValueError):
    """The bytes are not a trace that this version can read."""


Decoded = Trace | TraceFormatError  # a trace that was read, or why it cannot be


class _Array(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    dtype: str
    size: Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How one column is laid out: its arrays in the body, and the words of a column of strings."""

    arrays: list[_Array]
    words: list[str] | None = None


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    device: str
    batch: Annotated[int, msgspec.Meta(ge=0, le=MOST_SAMPLES)]
    estimated: bool
    asynchronous: bool
    variation: str
    ops: dict[str, _Column]
    tensors: dict[str, _Column]


def encode(trace: Trace) -> bytes:
    """The trace as bytes; ValueError if it is not consistent, because it could not be read back."""
    trace.check()
    body: list[bytes] = []
    header = _Header(
        name=trace.name,
        device=trace.device,
        batch=trace.batch,
        estimated=trace.estimated,
        asynchronous=trace.asynchronous,
        variation=trace.variation,
        ops=_encode_table(trace.ops, body),
        tensors=_encode_table(trace.tensors, body),
    )
    head = msgspec.msgpack.encode(header)
    if len(head) > MOST_HEADER_BYTES or _most_bytes(header) > MOST_BODY_BYTES:
        raise ValueError(f"a trace of {len(trace.ops)} ops and {len(trace.tensors)} tensors is too large to be stored")
    rest = head + zlib.compress(b"".join(body), level=6)
    return MAGIC + _FIXED.pack(VERSION, len(head), zlib.crc32(rest)) + rest


def decode(data: bytes) -> Trace:
    """The trace in some bytes; TraceFormatError with one clear line if they hold none."""
    if not data.startswith(MAGIC):
        raise TraceFormatError("not a trace file")
    fixed = data[len(MAGIC) : len(MAGIC) + _FIXED.size]
    if len(fixed) < _FIXED.size:
        raise TraceFormatError("truncated trace file")
    version, head_length, crc = _FIXED.unpack(fixed)
    if version != VERSION:
        raise TraceFormatError(f"trace file of version {version}; this neaptide reads version {VERSION}: profile again")
    rest = data[len(MAGIC) + _FIXED.size :]
    if zlib.crc32(rest) != crc:
        raise TraceFormatError("damaged or truncated trace file")
    try:
        if head_length > MOST_HEADER_BYTES:
            raise ValueError(f"its header is larger than {MOST_HEADER_BYTES} bytes")
        header = msgspec.msgpack.decode(rest[:head_length], type=_Header)
        body = memoryview(_decompress(rest[head_length:], header))
        ops, used = _decode_table(Ops, header.ops, body, 0)
        tensors, used = _decode_table(Tensors, header.tensors, body, used)
        trace = Trace(
            header.name,
            header.device,
            header.batch,
            header.estimated,
            header.asynchronous,
            header.variation,
            ops,
            tensors,
        )
        if used != len(body):
            raise ValueError("it has bytes that no column claims")
        trace.check()
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, zlib.error) as error:  # and msgspec's
        raise TraceFormatError(f"damaged trace file: {' '.join(str(error).split())}") from None
    return trace


def try_decode(data: bytes) -> Decoded:
    """The trace in some bytes, or why they hold none. Raises no error."""
    try:
        return decode(data)
    except TraceFormatError as error:
        return error


def _encode_table(table: Ops | Tensors, body: list[bytes]) -> dict[str, _Column]:
    columns = {}
    for name in table.__dataclass_fields__:
        column = getattr(table, name)
        words: list[str] | None = None
        match column:
            case Labels():
                arrays, words = [column.codes], list(column.words)
            case Lists():
                arrays = [column.offsets, column.items]
            case _:
                arrays = [column]
        columns[name] = _Column([_encode_array(array, body) for array in arrays], words)
    return columns


def _encode_array(array: npt.NDArray[Any], body: list[bytes]) -> _Array:
    stored = array.astype(array.dtype.newbyteorder("<"))
    body.append(stored.tobytes())
    return _Array(stored.dtype.str, stored.size)


def _decompress(data: bytes, header: _Header) -> bytes:
    """The body; decompresses no more than the header declares, and nothing when it declares too much."""
    most_bytes = _most_bytes(header)
    if most_bytes > MOST_BODY_BYTES:
        raise ValueError(f"it declares {most_bytes} bytes; at most {MOST_BODY_BYTES} are allowed")
    stream = zlib.decompressobj()
    body = stream.decompress(data, most_bytes + 1)
    if not stream.eof or stream.unused_data:
        raise ValueError("its columns do not end where they should")
    return body


def _most_bytes(header: _Header) -> int:
    """What the columns take at most, whatever their types are."""
    columns = [*header.ops.values(), *header.tensors.values()]
    return sum(array.size * 8 for column in columns for array in column.arrays)


def _decode_table(kind: type[_Table], columns: dict[str, _Column], body: memoryview, used: int) -> tuple[_Table, int]:
    if set(columns) != set(kind.__dataclass_fields__):
        raise ValueError("its columns are not the expected ones")
    values: dict[str, Any] = {}
    for name in columns:
        column = columns[name]
        arrays = []
        for layout in column.arrays:
            if layout.dtype not in _ITEM_BYTES:
                raise ValueError(f"column {name} has an unknown type")
            end = used + layout.size * _ITEM_BYTES[layout.dtype]
            if end > len(body):
                raise ValueError(f"column {name} is cut short")
            arrays.append(np.frombuffer(body[used:end], dtype=layout.dtype).copy())
            used = end
        match arrays, column.words:
            case [codes], list(words):
                values[name] = Labels(tuple(words), codes)
            case [offsets, items], None:
                values[name] = Lists(offsets, items)
            case [array], None:
                values[name] = array
            case _:
                raise ValueError(f"column {name} is of an unknown kind")
    return kind(**values), used
