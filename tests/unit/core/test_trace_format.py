"""A trace as bytes: what is written is read back, and anything else is refused in one line."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from builders import Op, columns_of, make_trace, training_trace
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace_format import MAGIC, VERSION, TraceFormatError, decode, encode

FIXED = struct.Struct("<IQI")
SMALL = encode(make_trace([Op()]))


def forged(
    edit: Callable[[dict[str, Any]], object] | None = None,
    body: Callable[[bytes], bytes] | None = None,
    packed: Callable[[bytes], bytes] | None = None,
    head: bytes | None = None,
) -> bytes:
    """The training trace's file with its header or columns changed, and a checksum that is right."""
    data = encode(training_trace())
    _, length, _ = FIXED.unpack_from(data, len(MAGIC))
    rest = data[len(MAGIC) + FIXED.size :]
    header, columns = msgspec.msgpack.decode(rest[:length]), zlib.decompress(rest[length:])
    if edit is not None:
        edit(header)
    if head is None:
        head = msgspec.msgpack.encode(header)
    compressed = zlib.compress(body(columns) if body else columns)
    rest = head + (packed(compressed) if packed else compressed)
    return MAGIC + FIXED.pack(VERSION, len(head), zlib.crc32(rest)) + rest


def refusal(data: bytes) -> str:
    """The message with which the bytes are refused; the error must be a TraceFormatError."""
    with pytest.raises(TraceFormatError) as caught:
        decode(data)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 200
    return message


def test_a_trace_is_read_back_exactly() -> None:
    trace = training_trace()
    assert columns_of(decode(encode(trace))) == columns_of(trace)
    assert columns_of(decode(forged())) == columns_of(trace)  # without edits, `forged` changes nothing


def test_a_trace_that_was_read_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        decode(SMALL).ops.seconds[0] = 1.0


def test_equal_traces_give_equal_files() -> None:
    assert encode(training_trace()) == encode(decode(encode(training_trace())))


def test_a_file_names_itself_and_its_version_first() -> None:
    assert SMALL.startswith(b"NEAPTIDE-TRACE\n" + VERSION.to_bytes(4, "little"))


def test_an_inconsistent_trace_is_not_written() -> None:
    with pytest.raises(ValueError, match="a fill outside"):
        encode(make_trace([Op(fill=2.0)]))


def test_every_truncation_is_refused() -> None:
    for length in range(len(SMALL)):
        refusal(SMALL[:length])


def test_every_flip_of_one_bit_and_of_one_byte_is_refused() -> None:
    for position in range(len(SMALL)):
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            data = bytearray(SMALL)
            data[position] ^= flip
            refusal(bytes(data))


def test_every_other_value_of_the_fixed_part_is_refused() -> None:
    for position in range(len(MAGIC) + FIXED.size):
        for flip in range(1, 256):
            refusal(SMALL[:position] + bytes([SMALL[position] ^ flip]) + SMALL[position + 1 :])


def test_a_swap_of_any_two_neighbouring_bytes_is_refused() -> None:
    for position in range(len(SMALL) - 1):
        data = bytearray(SMALL)
        data[position], data[position + 1] = data[position + 1], data[position]
        if data != SMALL:
            refusal(bytes(data))


@pytest.mark.parametrize("extra", [b"\0", b"\n", SMALL])
def test_bytes_after_the_end_are_refused(extra: bytes) -> None:
    assert refusal(SMALL + extra) == "damaged or truncated trace file"


@pytest.mark.parametrize(
    "data", [b"", b"NEAP", b"PK\x03\x04", b"\x80\x05cos\nsystem\n", b"{}", MAGIC[1:], b"\0" * 4096]
)
def test_a_foreign_file_is_not_a_trace_file(data: bytes) -> None:
    assert refusal(data) == "not a trace file"


def test_a_file_that_ends_after_its_magic_is_truncated() -> None:
    assert refusal(MAGIC) == "truncated trace file"
    assert refusal(MAGIC + b"\0" * (FIXED.size - 1)) == "truncated trace file"


@pytest.mark.parametrize("version", [0, VERSION + 1, 2**32 - 1])
def test_a_refused_version_is_named_together_with_what_to_do(version: int) -> None:
    data = MAGIC + FIXED.pack(version, 0, 0)
    expected = f"trace file of version {version}; this neaptide reads version {VERSION}: profile again"
    assert refusal(data) == expected
    assert refusal(MAGIC + version.to_bytes(4, "little") + SMALL[len(MAGIC) + 4 :]) == expected


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**63, 2**64 - 1])
def test_a_wrong_header_length_is_refused(length: int) -> None:
    crc = FIXED.unpack_from(SMALL, len(MAGIC))[2]
    message = refusal(MAGIC + FIXED.pack(VERSION, length, crc) + SMALL[len(MAGIC) + FIXED.size :])
    assert message.startswith("damaged trace file: ")


def setting(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    """An edit that puts a value at a path of the header."""
    *path, key, value = path_and_value

    def edit(header: Any) -> None:
        for step in path:
            header = header[step]
        header[key] = value

    return edit


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def edit(header: Any) -> None:
        for step in path[:-1]:
            header = header[step]
        del header[path[-1]]

    return edit


# A column is [[[dtype, size], ...], words]; the training trace has 4 ops and 5 tensors.
NUMBER = [[["<i8", 4]], None]
LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "more items than there are": setting("tensors", "saved", 0, 0, 1, 6),
    "far more items than there are": setting("tensors", "saved", 0, 0, 1, 2**31),
    "more items than can be": setting("ops", "seconds", 0, 0, 1, 2**60),
    "items beyond 63 bits": setting("ops", "seconds", 0, 0, 1, 2**63),
    "items beyond 64 bits less one": setting("ops", "seconds", 0, 0, 1, 2**64 - 1),
    "fewer items than there are": setting("tensors", "saved", 0, 0, 1, 4),
    "fewer than none": setting("ops", "seconds", 0, 0, 1, -1),
    "far fewer than none": setting("ops", "seconds", 0, 0, 1, -(2**63)),
    "a broken number of items": setting("ops", "seconds", 0, 0, 1, 1.5),
    "items moved from one column to the next": lambda header: (
        setting("ops", "seconds", 0, 0, 1, 3)(header),
        setting("ops", "host_seconds", 0, 0, 1, 5)(header),
    ),
    "an unknown type": setting("ops", "seconds", 0, 0, 0, "<f4"),
    "a type that is an object": setting("ops", "seconds", 0, 0, 0, "|O"),
    "a type that is no type": setting("ops", "seconds", 0, 0, 0, "seconds\n"),
    "big-endian": setting("ops", "seconds", 0, 0, 0, ">f8"),
    "floats for integers": setting("tensors", "bytes", 0, 0, 0, "<f8"),
    "integers for floats": setting("ops", "seconds", 0, 0, 0, "<i8"),
    "codes for flags": setting("tensors", "saved", 0, 0, 0, "|u1"),
    "flags for codes": setting("ops", "phase", 0, 0, 0, "|b1"),
    "floats for the codes of words": setting("ops", "name", 0, 0, 0, "<f8"),
    "floats for the items of lists": setting("ops", "reads", 0, 1, 0, "<f8"),
    "floats for the offsets of lists": setting("ops", "reads", 0, 0, 0, "<f8"),
    "words in a column of numbers": setting("ops", "seconds", 1, ["a"]),
    "words in the column that says how many ops there are": setting("ops", "phase", 1, ["a"]),
    "words in the column that says how many tensors there are": setting("tensors", "bytes", 1, ["a"]),
    "words in a column of lists": setting("ops", "reads", 1, ["a"]),
    "no words in a column of words": setting("ops", "name", 1, None),
    "too few words": setting("ops", "name", 1, ["aten.mm", "aten.relu"]),
    "no words at all": setting("ops", "name", 1, []),
    "the same word twice": setting("ops", "name", 1, ["aten.mm", "aten.mm", "aten.add_"]),
    "words that are numbers": setting("ops", "name", 1, [1, 2, 3]),
    "words that are one word": setting("ops", "name", 1, "abc"),
    "lists without items": setting("ops", "reads", 0, [["<i8", 5]]),
    "numbers for lists": lambda header: (
        setting("ops", "reads", 0, [["<i8", 4]])(header),
        setting("ops", "writes", 0, [["<i8", 4]])(header),
    ),
    "no arrays": setting("ops", "seconds", 0, []),
    "three arrays": setting("ops", "seconds", 0, [["<f8", 4], ["<f8", 0], ["<f8", 0]]),
    "a column missing": without("ops", "seconds"),
    "a column too many": setting("ops", "colour", NUMBER),
    "a column of the other table": setting("tensors", "seconds", NUMBER),
    "no tensors": without("tensors"),
    "no name": without("name"),
    "a name that is a number": setting("name", 3),
    "a negative batch": setting("batch", -1),
    "a batch that is text": setting("batch", "4"),
    "a doubtful flag": setting("asynchronous", 1),
    "a fact nobody asked for": setting("owner\n", "me"),
    "a layout nobody asked for": setting("ops", "seconds", [[["<f8", 4, []]], None]),
    "a column of three parts": setting("ops", "seconds", [[["<f8", 4]], None, []]),
    "a column that is a number": setting("ops", "seconds", 4),
    "a table that is a list": setting("ops", []),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_header_is_refused_though_its_checksum_is_right(lie: str) -> None:
    message = refusal(forged(LIES[lie]))
    assert message.startswith("damaged trace file: ")


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("more items than there are", "column saved is cut short"),
        ("fewer items than there are", "it has bytes that no column claims"),
        ("a type that is an object", "column seconds has an unknown type"),
        ("codes for flags", "not a trace: column saved does not hold flags"),
        ("words in a column of lists", "column reads is of an unknown kind"),
        ("a column missing", "its columns are not the expected ones"),
        ("a column too many", "its columns are not the expected ones"),
        ("too few words", "not a trace: column name names an unknown word"),
    ],
)
def test_a_refusal_says_what_is_wrong(lie: str, message: str) -> None:
    assert refusal(forged(LIES[lie])) == f"damaged trace file: {message}"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xc1",  # not msgpack
        b"\x90",
        b"\x80",
        b"\xdf\xff\xff\xff\xff",  # a table of four thousand million entries
        b"\x81\xa4name\xdb\xff\xff\xff\xff",
        b"\x81\xa4name\xa1\xff",  # not UTF-8
        b"\x81\xa1z" + b"\x91" * 100_000,
        b"\x81\xa4name" + b"\x91" * 100_000,
        b"\x81\xa3ops\x81\xa4name\x92\x91\x93\xa3<i8\x01" + b"\x91" * 100_000,
    ],
)
def test_bytes_that_are_no_header_are_refused_though_their_checksum_is_right(head: bytes) -> None:
    assert refusal(forged(head=head)).startswith("damaged trace file: ")


@pytest.mark.parametrize(
    "packed",
    [
        lambda _: b"",
        lambda _: b"columns",
        lambda data: data[:-1],
        lambda data: data[:-4],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: data + data,
    ],
)
def test_columns_that_do_not_unpack_are_refused(packed: Callable[[bytes], bytes]) -> None:
    assert refusal(forged(packed=packed)).startswith("damaged trace file: ")


@pytest.mark.parametrize("body", [lambda _: b"", lambda data: data[:-1], lambda data: data + b"\0"])
def test_columns_shorter_or_longer_than_declared_are_refused(body: Callable[[bytes], bytes]) -> None:
    assert refusal(forged(body=body)).startswith("damaged trace file: ")


def test_an_inconsistent_trace_is_refused_with_the_reason_that_check_gives() -> None:
    last_flag_is_two = forged(body=lambda data: data[:-1] + b"\2")
    assert refusal(last_flag_is_two) == (
        "damaged trace file: not a trace: it has a flag that is neither true nor false"
    )


def peak_bytes_of_refusing(data: bytes) -> int:
    tracemalloc.start()
    try:
        refusal(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_columns_that_unpack_to_far_more_than_declared_take_no_memory() -> None:
    bomb = forged(body=lambda data: data + bytes(64 << 20))
    assert len(bomb) < 1 << 17
    assert peak_bytes_of_refusing(bomb) < 1 << 20


def test_columns_declared_far_larger_than_they_are_take_no_memory() -> None:
    lie = forged(setting("ops", "seconds", 0, 0, 1, 2**31))
    assert peak_bytes_of_refusing(lie) < 1 << 20


def test_a_trace_without_tensors_or_with_strange_words_is_read_back() -> None:
    trace = make_trace([Op(name="Größe\n\0", module="")], name="☃", variation="it\nvaries")
    assert columns_of(decode(encode(trace))) == columns_of(trace)
    assert isinstance(decode(encode(trace)).ops.name, Labels)
    assert isinstance(decode(encode(trace)).ops.reads, Lists)
