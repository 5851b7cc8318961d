"""When the bytes of a request reached the machine, which may be long before the program reads them."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any

# struct tcp_info of Linux: eight bytes, then words of four; the twelfth counts milliseconds since data came.
_SINCE_DATA = struct.Struct("=I")
_AT = 8 + 11 * _SINCE_DATA.size
_MOST_NS = 3_600_000_000_000  # what is older is no request that waits


def transport_waited_ns(transport: Any) -> int:
    """How long ago the last data came over a transport of asyncio, to a few milliseconds; 0 where nobody knows."""
    with suppress(AttributeError):
        return waited_ns(transport.get_extra_info("socket"))
    return 0


def waited_ns(connection: Any) -> int:
    """The same for a socket."""
    with suppress(AttributeError, OSError, struct.error):
        known = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT + _SINCE_DATA.size)
        since_ns = 1_000_000 * _SINCE_DATA.unpack_from(known, _AT)[0]
        return since_ns if since_ns < _MOST_NS else 0
    return 0
