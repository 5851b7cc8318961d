"""How messages travel over a stream: each as msgpack behind four bytes that give its length, most significant first.

A message says its kind first. Only the kinds that carry a trace, and the daemon's answers, may be large; the receiver
refuses any other from its first bytes on.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from neaptide.live.protocol.messages import (
    VERSION,
    FromDaemon,
    Hello,
    Message,
    OtherVersionError,
    Profiled,
    ProtocolError,
    ToDaemon,
)

MOST_BYTES = 16 << 20
MOST_SMALL_BYTES = 64 << 10
_LARGE = (Hello, Profiled)
_LENGTH = struct.Struct(">I")
_RECEIVED_AT_ONCE_BYTES = 1 << 16

_ENCODER = msgspec.msgpack.Encoder()
_TO_DAEMON: msgspec.msgpack.Decoder[ToDaemon] = msgspec.msgpack.Decoder(ToDaemon)
_FROM_DAEMON: msgspec.msgpack.Decoder[FromDaemon] = msgspec.msgpack.Decoder(FromDaemon)
_Decoded = TypeVar("_Decoded", ToDaemon, FromDaemon)

_LONG_MAP = 0xDE  # msgpack's mark of a map of more than 15 entries; the count follows in two bytes
_LARGE_BEGIN = tuple(_ENCODER.encode("say") + _ENCODER.encode(kind.__name__) for kind in _LARGE)
_BEGIN_BYTES = 3 + max(len(begin) for begin in _LARGE_BEGIN)


class _AnyHello(msgspec.Struct, tag_field="say", tag="Hello"):
    """What a Hello of every version has."""

    version: int


_ANY_HELLO = msgspec.msgpack.Decoder(_AnyHello)


def frame(message: Message) -> bytes:
    """The bytes to send for a message; ValueError when it is too large."""
    try:
        body = _ENCODER.encode(message)
    except UnicodeEncodeError:  # a path, or what an error says, need not be text
        body = _ENCODER.encode(_as_text(message))
    if len(body) > MOST_BYTES:
        raise ValueError(f"a message of {len(body)} bytes cannot be sent; at most {MOST_BYTES} can")
    return _LENGTH.pack(len(body)) + body


def _as_text(value: Any) -> Any:
    """The same, with a question mark for every letter that cannot be encoded."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case tuple():
            return tuple(map(_as_text, value))
        case msgspec.Struct():
            fields = {name: _as_text(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
    return value


class DaemonInbox:
    """Cuts the bytes that one caller sends to the daemon into messages."""

    def __init__(self) -> None:
        self._received = bytearray()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages that were not read yet, or are not complete."""
        return len(self._received)

    def add(self, data: bytes) -> None:
        """Take more bytes."""
        self._received += data

    def feed(self, data: bytes) -> Iterator[ToDaemon]:
        """Take more bytes; the messages that they complete, or ProtocolError."""
        self.add(data)
        while (message := self.next()) is not None:
            yield message

    def next(self) -> ToDaemon | None:
        """The next message; None when it is not complete. Raises ProtocolError."""
        received = self._received
        if len(received) < _LENGTH.size:
            return None
        length = _body_length(received[: _LENGTH.size])
        if length > MOST_SMALL_BYTES:
            _check_kind(received[_LENGTH.size : _LENGTH.size + _BEGIN_BYTES], length)
        end = _LENGTH.size + length
        if len(received) < end:
            return None
        body = bytes(received[_LENGTH.size : end])
        del received[:end]
        try:
            return _decode(_TO_DAEMON, body)
        except ProtocolError:
            if (version := _version(body)) not in (None, VERSION):
                raise OtherVersionError(version) from None
            raise


def receive_from_daemon(line: socket.socket) -> FromDaemon | None:
    """Wait for the daemon's next message; None when the connection has ended. Raises ProtocolError or OSError."""
    head = _receive_exactly(line, _LENGTH.size)
    body = None if head is None else _receive_exactly(line, _body_length(head))
    return None if body is None else _decode(_FROM_DAEMON, body)


def _receive_exactly(line: socket.socket, count: int) -> bytes | None:
    """Wait for so many bytes; None when the connection ends before."""
    received = bytearray()
    while len(received) < count:
        part = line.recv(min(count - len(received), _RECEIVED_AT_ONCE_BYTES))
        if not part:
            return None
        received += part
    return bytes(received)


def _body_length(head: bytes | bytearray) -> int:
    (length,) = _LENGTH.unpack(head)
    if not 0 < length <= MOST_BYTES:
        raise ProtocolError(f"a message of {length} bytes was announced; at most {MOST_BYTES} are allowed")
    return int(length)


def _check_kind(begin: bytearray, length: int) -> None:
    """Refuse a large message as soon as its first bytes show that its kind is a small one."""
    if not begin:
        return
    said = bytes(begin[3:] if begin[0] == _LONG_MAP else begin[1:])
    if not any(said[: len(large)] == large[: len(said)] for large in _LARGE_BEGIN):
        raise ProtocolError(f"a message of {length} bytes without a trace; at most {MOST_SMALL_BYTES} are allowed")


def _version(body: bytes) -> int | None:
    """The version of the protocol in a Hello; None when this is no Hello."""
    try:
        return _ANY_HELLO.decode(body).version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _decode(decoder: msgspec.msgpack.Decoder[_Decoded], body: bytes) -> _Decoded:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a message of this protocol: {' '.join(str(error).split())}") from None
