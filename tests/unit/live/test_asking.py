"""One question to the daemon and its answer, on a connection whose other end a test holds."""

from __future__ import annotations

import socket

import pytest

from neaptide.live.protocol.asking import NoDaemonError, SilentDaemonError, ask_on
from neaptide.live.protocol.framing import frame
from neaptide.live.protocol.messages import StatusRequest, Welcome


def test_the_answer_of_the_daemon_is_returned() -> None:
    line, daemon = socket.socketpair()
    with line, daemon:
        answer = Welcome(True, "a", 1, "zico")
        daemon.sendall(frame(answer))
        assert ask_on(line, StatusRequest()) == answer
        assert daemon.recv(1000) == frame(StatusRequest())


@pytest.mark.parametrize("how", [socket.SHUT_WR, socket.SHUT_RDWR])
def test_a_connection_that_is_closed_instead_means_that_there_is_no_daemon(how: int) -> None:
    line, daemon = socket.socketpair()
    with line, daemon:
        daemon.shutdown(how)
        with pytest.raises(NoDaemonError, match="closed the connection without an answer"):
            ask_on(line, StatusRequest())


def test_a_daemon_that_does_not_answer_in_time_is_silent() -> None:
    line, daemon = socket.socketpair()
    with line, daemon:
        line.settimeout(0.01)
        with pytest.raises(SilentDaemonError, match="does not answer"):
            ask_on(line, StatusRequest())
