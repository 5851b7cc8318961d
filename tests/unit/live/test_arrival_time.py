from __future__ import annotations

import socket
import time
from typing import Any

from neaptide.live.job.serving.arrival_time import transport_waited_ns, waited_ns


class Transport:
    """What a server's transport says of its socket."""

    def __init__(self, found: socket.socket | None) -> None:
        self._found = found

    def get_extra_info(self, name: str) -> Any:
        return self._found if name == "socket" else None


def test_the_time_that_bytes_have_waited_in_the_socket_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens, socket.create_connection(listens.getsockname()) as client:
        served, _ = listens.accept()
        with served:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            sent_ns, passed_ns = time.monotonic_ns(), 0
            while passed_ns < 50_000_000:
                served.sendall(b".")  # what is sent does not count
                client.recv(1)
                passed_ns = time.monotonic_ns() - sent_ns
                waited = transport_waited_ns(Transport(served))
                # The kernel's clock has coarse ticks.
                assert passed_ns - 20_000_000 <= waited <= time.monotonic_ns() - sent_ns + 20_000_000


def test_of_a_connection_of_another_kind_nothing_is_known() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert transport_waited_ns(Transport(one)) == waited_ns(one) == 0
    assert transport_waited_ns(Transport(None)) == 0
    assert transport_waited_ns(None) == waited_ns(None) == 0
