"""A job's line to the daemon. Nobody in the job ever waits for a daemon that does not read.

What is said of the device goes out when the device has passed it, from the device's own thread (soft/csrc/reporter.h):
a second thread of the interpreter would cost a training loop half a millisecond for every message.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from neaptide.core.traces.trace import Phase
from neaptide.devices.soft import native
from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.messages import (
    FromDaemon,
    Hello,
    IterationEnded,
    Message,
    PhaseEnded,
    ProtocolError,
)

_SMALL_BYTES = 1 << 14
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 30  # for a large message
_FORWARD_ENDED = frame(PhaseEnded(Phase.FORWARD))
# The device puts the time that an iteration took in the place of this, which is encoded in eight bytes at the end.
_DURATION_NS = 2**62


class Connection:
    """One connection after the other; several threads may send, one connects and receives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket: socket.socket | None = None
        self._reporter = native.Reporter()

    def connect(self, hello: Callable[[int], Hello]) -> bool:
        """Whether the daemon answers; `hello` is given how many iterations the device has passed."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(_CONNECT_SECONDS)
            line.connect(str(self.path))
            line.settimeout(None)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _SEND_SECONDS, 0))
            ended = self._reporter.ended()
            line.sendall(frame(hello(ended)), socket.MSG_NOSIGNAL)
        except OSError:
            line.close()
            return False
        self._socket = line
        self._reporter.connect(line.fileno(), ended)
        return True

    def send(self, message: Message) -> None:
        """Send now, if there is somebody. A small message that the daemon has no room for ends the connection."""
        data = frame(message)
        self._reporter.send(data, len(data) > _SMALL_BYTES)

    def send_after_the_device(self, message: Message) -> None:
        """Send when the device has done what was launched."""
        self._reporter.send_on_stream(frame(message))

    def forward_ends(self) -> None:
        """The forward pass was launched: to be reported when the device has passed it."""
        self._reporter.send_on_stream(_FORWARD_ENDED)

    def iteration_ends(self, index: int, size: float, began_ns: int) -> None:
        """The same for the whole iteration, which was permitted at `began_ns`."""
        self._reporter.end_on_stream(frame(IterationEnded(index, size, _DURATION_NS)), index, began_ns)

    def receive(self) -> FromDaemon | None:
        """What the daemon says next; None when it is gone or says what nobody understands."""
        line = self._socket
        if line is None:
            return None
        try:
            return receive_from_daemon(line)
        except (OSError, ProtocolError):
            return None

    def hang_up(self) -> None:
        """End the connection; the thread that receives notices, and closes it."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        self._reporter.disconnect()
        line, self._socket = self._socket, None
        if line is not None:
            line.close()

    def forget(self) -> None:
        """In a forked child: let go of the line without ending it for the parent."""
        self._reporter.forget()
        line, self._socket = self._socket, None
        if line is not None:
            line.close()
