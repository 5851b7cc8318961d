"""A process on the hollow device that does what a test tells it, statement by statement.

Run as a program, this file is that process: it reads one JSON line per statement from a socket and answers with one.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
# What most tests want: no costs and small contexts, so that bytes are easy to read.
SETTINGS = {"HOLLOW_COSTS": "0", "HOLLOW_CONTEXT": "16M", "HOLLOW_MEMORY": "1G", "OMP_NUM_THREADS": "1"}
SECONDS = 300  # a statement that takes longer hangs


class RemoteError(Exception):
    """A statement raised; `code` is CUDA's number if it was a CUDA call."""

    def __init__(self, kind: str, text: str, code: int | None) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text, self.code = kind, text, code


class Remote:
    """The test's end of such a process. Names of `hollow.cuda` are defined in it."""

    def __init__(self, board: Path, prelude: str = "from hollow.cuda import *", **settings: str) -> None:
        mine, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HOLLOW_", "CUDA_"))}
        environment |= SETTINGS | {"HOLLOW_BOARD": str(board)} | settings
        environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        mine.settimeout(SECONDS)
        self._socket = mine
        self._answers = mine.makefile("r")
        self.pid = self._process.pid
        if prelude:
            self(prelude)

    def start(self, statement: str) -> None:
        """Sends a statement and does not wait for its answer."""
        self._socket.sendall(json.dumps(statement).encode() + b"\n")

    def answer(self) -> Any:
        """The answer of a statement that was started."""
        line = self._answers.readline()
        if not line:
            raise RemoteError("Died", self._process.communicate()[1], None)
        kind, value, code = json.loads(line)
        if kind:
            raise RemoteError(kind, value, code)
        return value

    def __call__(self, statement: str) -> Any:
        """The value of an expression, or None for other statements."""
        self.start(statement)
        return self.answer()

    def send_file(self, descriptor: int) -> None:
        """Gives it a file; the next statement finds its number as `received_file`."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self.start("received_file = peer.recv_fds()")
        self._socket.sendmsg([b"\0"], rights)
        self.answer()

    def take_file(self, expression: str) -> int:
        """Has it send a file, whose number here is returned; its own stays open."""
        self.start(f"peer.send_fds({expression})")
        _, rights, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(4))
        self.answer()
        return int(array.array("i", rights[0][2])[0])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> str:
        """Lets it end by itself; returns what it wrote to stderr."""
        self._socket.shutdown(socket.SHUT_WR)
        return self._process.communicate(timeout=60)[1]

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        self._answers.close()
        self._socket.close()
        if self._process.stderr:
            self._process.stderr.close()


class _Peer:
    """The process's end."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def recv_fds(self) -> int:
        _, rights, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(4))
        return int(array.array("i", rights[0][2])[0])

    def send_fds(self, descriptor: int) -> None:
        self._socket.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])

    def _line(self) -> bytes:
        # Byte by byte: a buffer would swallow what follows, and with it a file.
        line = b""
        while not line.endswith(b"\n"):
            byte = self._socket.recv(1)
            if not byte:
                return b""
            line += byte
        return line

    def serve(self) -> None:
        names: dict[str, Any] = {"peer": self}
        while line := self._line():
            statement = json.loads(line)
            try:
                try:
                    code = compile(statement, "<statement>", "eval")
                except SyntaxError:
                    answer = ["", None, None]
                    exec(statement, names)
                else:
                    answer = ["", eval(code, names), None]
            except Exception as error:
                answer = [type(error).__name__, str(error), getattr(error, "code", None)]
            try:
                text = json.dumps(answer)
            except TypeError:
                text = json.dumps(["", repr(answer[1]), None])
            self._socket.sendall(text.encode() + b"\n")


if __name__ == "__main__":
    _Peer(int(sys.argv[1])).serve()
