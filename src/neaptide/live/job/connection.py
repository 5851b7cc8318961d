"""Carries a client's messages: one thread that connects to the daemon, receives, and connects again when it is gone.

The device's own thread sends the client's messages, also those that wait until the device has passed what was launched
before them. A second Python thread for that would cost a training loop half a millisecond for every message.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

from neaptide.devices.interface import DeviceAgent
from neaptide.live.job.client import Client
from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.messages import FromDaemon, ProtocolError

_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 30  # for a large message


class Connection:
    """One connection after the other, from the first launch of the process to `leave`."""

    def __init__(self, client: Client, agent: DeviceAgent, path: Path) -> None:
        self._client = client
        self._agent = agent
        self._path = path
        self._pid = os.getpid()
        self._socket: socket.socket | None = None
        self._leaving = threading.Event()
        self._launched = False  # the program uses the device
        self._thread = threading.Thread(target=self._run, name="neaptide-connection", daemon=True)
        client.hang_up = self.hang_up

    def start(self) -> None:
        """Begin: from here on the first launch waits for the daemon."""
        self._client.hold()
        self._thread.start()

    def leave(self) -> None:
        """End: have everything that was launched reported, and say goodbye."""
        if os.getpid() != self._pid or self._leaving.is_set():
            return
        self._leaving.set()
        self._client.leave()
        if not self._launched:
            self._thread.join()  # the thread uses the device, which is stopped next

    def hang_up(self) -> None:
        """End the connection; the thread that receives notices, and closes it."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def forget_after_fork(self) -> None:
        """In a forked child, which cannot use the device: close the socket without ending the parent's connection."""
        self._agent.forget_after_fork()
        self._close()

    def _run(self) -> None:
        while not self._agent.wait_for_held_launch(_LOOK_SECONDS):
            if self._leaving.is_set():
                return
        self._launched = True
        warned = False
        while not self._leaving.is_set():
            if self._connect():
                self._receive()
                if self._client.refused or self._leaving.is_set():
                    return
            elif not warned:
                warned = True
                line = f"neaptide: no daemon at {self._path}; the job runs without one until there is"
                print(line, file=sys.stderr, flush=True)
            self._client.lost()
            self._leaving.wait(_RETRY_SECONDS)

    def _connect(self) -> bool:
        """Connect to the daemon and send Hello; False when there is no daemon."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(_CONNECT_SECONDS)
            line.connect(str(self._path))
            line.settimeout(None)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _SEND_SECONDS, 0))
            ended = self._agent.iterations_ended()
            line.sendall(frame(self._client.hello(ended)), socket.MSG_NOSIGNAL)
        except OSError:
            line.close()
            return False
        self._socket = line
        self._agent.connect_reports(line.fileno(), ended)
        return True

    def _receive(self) -> None:
        """Handle messages until the daemon is gone or breaks the protocol."""
        while not self._client.refused and (message := self._next_message()) is not None:
            if self._leaving.is_set():
                break
            self._client.handle(message)
        self._agent.disconnect_reports()
        self._close()

    def _next_message(self) -> FromDaemon | None:
        line = self._socket
        if line is None:
            return None
        try:
            return receive_from_daemon(line)
        except (OSError, ProtocolError):
            return None

    def _close(self) -> None:
        line, self._socket = self._socket, None
        if line is not None:
            line.close()
