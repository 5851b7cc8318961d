"""Carries a client's messages: one thread that connects to the daemon, receives, and connects again when it is gone.

The device's own thread sends the client's messages, also those that wait until the device has passed what was launched
before them. A second Python thread for that would cost a training loop half a millisecond for every message.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from neaptide.core.text import complain_aside
from neaptide.devices.interface import DeviceAgent
from neaptide.live.job.client import Client
from neaptide.live.protocol.framing import frame, receive_from_daemon
from neaptide.live.protocol.messages import FromDaemon, ProtocolError
from neaptide.live.protocol.peers import connect

_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_TURNED_AWAY_SECONDS = 10.0  # before a job that the daemon refused asks again
_FAULT_SECONDS = 2.0  # before the next try after a fault of this part
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 3  # for Hello, which may hold a trace; a daemon that reads nothing for so long may be stopped


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
        told = ""
        while True:
            try:
                return self._keep_connected()
            except Exception as error:  # a fault of neaptide must not leave the program waiting for ever
                if self._leaving.is_set():
                    return None
                problem = f"{type(error).__name__}: {error}"
                if problem != told:
                    told = problem
                    complain_aside(f"the job goes on without the daemon until it can join it again: {problem}")
                with suppress(Exception):  # a damaged board may be the fault; the next try comes
                    self._client.lost()
                self._leaving.wait(_FAULT_SECONDS)

    def _keep_connected(self) -> None:
        while not self._agent.wait_for_held_launch(_LOOK_SECONDS):
            if self._leaving.is_set():
                return
        self._launched = True
        told = ""
        while not self._leaving.is_set():
            problem = self._connect() or self._receive()
            if self._client.refused or self._leaving.is_set():
                return
            if problem and problem != told:
                told = problem
                complain_aside(f"{problem}; the job runs without a daemon until it can join one")
            self._client.lost()
            self._leaving.wait(_TURNED_AWAY_SECONDS if self._client.turned_away else _RETRY_SECONDS)

    def _connect(self) -> str:
        """Connect to the daemon and send Hello; what is wrong, if that is not possible."""
        with ExitStack() as on_failure:
            try:
                line = on_failure.enter_context(connect(self._path, _CONNECT_SECONDS))
                line.settimeout(None)
                line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _SEND_SECONDS, 0))
                # Before Hello: the daemon must not hear of a job that could never report.
                reports = fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, 0)
                on_failure.callback(os.close, reports)
                ended = self._agent.iterations_ended()
                line.sendall(frame(self._client.hello(ended)), socket.MSG_NOSIGNAL)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    return f"no file descriptor is left for a connection to {self._path}"
                return f"no daemon at {self._path}"
            except ValueError as error:  # not this user's daemon, or a trace that is too large to be sent
                return str(error)
            on_failure.pop_all()
        self._socket = line
        self._agent.connect_reports(reports, ended)
        return ""

    def _receive(self) -> str:
        """Handle messages until the daemon is gone; what is wrong, if it says nothing that can be understood."""
        understood = False
        try:
            while not self._client.refused and (message := self._next_message()) is not None:
                if self._leaving.is_set():
                    break
                understood = True
                self._client.handle(message)
        finally:
            self._agent.disconnect_reports()
            self._close()
        return "" if understood else f"the daemon at {self._path} closed the connection without an answer"

    def _next_message(self) -> FromDaemon | None:
        line = self._socket
        if line is None:
            return None
        heard_ns = time.monotonic_ns()
        while self._client.holds and not _readable(line, _LOOK_SECONDS):
            if self._agent.daemon_is_silent(heard_ns):
                self._client.stop_waiting()
        try:
            return receive_from_daemon(line)
        except (OSError, ProtocolError):
            return None

    def _close(self) -> None:
        line, self._socket = self._socket, None
        if line is not None:
            line.close()


def _readable(line: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
