"""How messages travel over a stream: each as msgpack behind four bytes that give its length, most significant first."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from neaptide.live.protocol.messages import FromDaemon, Message, ProtocolError, ToDaemon

MAX_MESSAGE_BYTES = 64 << 20
_LENGTH = struct.Struct(">I")
_RECEIVED_AT_ONCE_BYTES = 1 << 16

_ENCODER = msgspec.msgpack.Encoder()
_TO_DAEMON: msgspec.msgpack.Decoder[ToDaemon] = msgspec.msgpack.Decoder(ToDaemon)
_FROM_DAEMON: msgspec.msgpack.Decoder[FromDaemon] = msgspec.msgpack.Decoder(FromDaemon)
_Decoded = TypeVar("_Decoded", ToDaemon, FromDaemon)


def frame(message: Message) -> bytes:
    """The bytes to send for a message; ValueError when it is too large."""
    body = _ENCODER.encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(body)} bytes cannot be sent; at most {MAX_MESSAGE_BYTES} can")
    return _LENGTH.pack(len(body)) + body


class DaemonInbox:
    """Cuts the bytes that one caller sends to the daemon into messages."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[ToDaemon]:
        """Take more bytes; the messages that they complete, or ProtocolError."""
        self._received += data
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _body_length(self._received[: _LENGTH.size])
            if len(self._received) < end:
                return
            body = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield _decode(_TO_DAEMON, body)


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
    if not 0 < length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes was announced; at most {MAX_MESSAGE_BYTES} are allowed")
    return int(length)


def _decode(decoder: msgspec.msgpack.Decoder[_Decoded], body: bytes) -> _Decoded:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a message of this protocol: {' '.join(str(error).split())}") from None
