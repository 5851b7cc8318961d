"""Trace files with a right checksum around anything, as a stranger could send them."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from neaptide.core.traces.trace_format import _FIXED, MAGIC, VERSION, encode
from tides import tide


def file_of(head: dict[str, Any], body: bytes) -> bytes:
    """A trace file with this header and these columns."""
    encoded = msgspec.msgpack.encode(head)
    rest = encoded + zlib.compress(body, 1)
    return MAGIC + _FIXED.pack(VERSION, len(encoded), zlib.crc32(rest)) + rest


def small_header() -> dict[str, Any]:
    """The header of a small trace."""
    encoded = encode(tide("t", 3, 0.1))
    start = len(MAGIC) + _FIXED.size
    length = _FIXED.unpack(encoded[len(MAGIC) : start])[1]
    head: dict[str, Any] = msgspec.msgpack.decode(encoded[start : start + length])
    return head


def bomb(declared_bytes: int, body_bytes: int) -> bytes:
    """A trace file that declares so many bytes in one column, and has a body of zeros."""
    head = small_header()
    head["ops"]["seconds"] = [[["<f8", declared_bytes // 8]], None]
    return file_of(head, bytes(body_bytes))
