"""A stand-in for the daemon: it welcomes every job, keeps its messages, and lets a test control the board."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from hangs import HANGS_SECONDS as SECONDS
from neaptide.devices.board import PERMIT_ALL, Board, Region
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import DaemonInbox, frame

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
BOOTSTRAP = SOURCE / "neaptide" / "live" / "job" / "bootstrap"
_Said = TypeVar("_Said", bound=say.Message)


class StandIn:
    """Listens on a socket in the folder. After a Profiled every iteration is permitted, unless a test replaces that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "daemon.sock"
        self.board = Board.create(folder / "board", 256 << 20, Region("soft", 1))
        self.heard: list[say.Message] = []
        self.welcomes = True
        self.after_profiled: Callable[[StandIn], say.Message | None] = StandIn.permit_all
        self.slot = -1
        self._changed = threading.Condition()
        self._lines: list[socket.socket] = []
        self._jobs: list[subprocess.Popen[str]] = []
        self._listening: socket.socket | None = None

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        listening = self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self.path))
        listening.listen()
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def stop(self) -> None:
        """Close all connections, as if the daemon was killed."""
        if self._listening is not None:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        for line in self._lines:
            line.close() if line.fileno() < 0 else line.shutdown(socket.SHUT_RDWR)
        self._lines.clear()

    def close(self) -> None:
        """Stop the daemon and kill its jobs."""
        self.stop()
        for job in self._jobs:
            job.kill()
            job.communicate()

    def permit_all(self) -> None:
        self.board.set_permit(self.slot, PERMIT_ALL)

    def permit_many(self) -> None:
        """Permit more iterations than there are, but not all: a job that runs ahead does not report its progress."""
        self.board.set_permit(self.slot, 1_000_000)

    def say(self, message: say.Message) -> None:
        self._lines[-1].sendall(frame(message))

    def wait_for(self, kind: type[_Said], count: int = 1) -> list[_Said]:
        """Wait until there are `count` messages of this kind; returns them all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all(kind)) >= count, SECONDS), self.heard[-20:]
        return self.all(kind)

    def all(self, kind: type[_Said]) -> list[_Said]:
        return [message for message in self.heard if isinstance(message, kind)]

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                line, _ = listening.accept()
            except OSError:
                return
            self._lines.append(line)
            threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        inbox = DaemonInbox()
        with line, suppress(OSError):
            while data := line.recv(1 << 16):
                for message in inbox.feed(data):
                    self._answer(line, message)
                    with self._changed:
                        self.heard.append(message)
                        self._changed.notify_all()

    def _answer(self, line: socket.socket, message: say.Message) -> None:
        answers: list[say.Message | None] = []
        if isinstance(message, say.Hello):
            self.slot = message.slot
            begun = self.board.progress(self.slot).iteration
            self.board.set_permit(self.slot, PERMIT_ALL if message.resumed else begun)
            welcome = say.Welcome(not message.resumed, message.job, self.board.snapshot().capacity_bytes, "none")
            answers = [welcome] if self.welcomes else []
        elif isinstance(message, say.Profiled):
            answers = [self.after_profiled(self)]
        for answer in answers:
            if answer is not None:
                line.sendall(frame(answer))

    # --- jobs

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "NEAPTIDE_SOCKET": str(self.path),
            "NEAPTIDE_SOFT_BOARD": str(self.folder / "board"),
            "NEAPTIDE_SOFT_SMS": "1",
            "NEAPTIDE_JOB": "job",
            "PYTHONPATH": os.pathsep.join(map(str, (BOOTSTRAP, SOURCE, HERE / "soft"))),
            **more,
        }

    def run(self, code: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a program with this text in a process of its own under this daemon."""
        return self.start_job("-c", code, *arguments, **more)

    def start_job(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start Python with these arguments in a process of its own under this daemon."""
        job = subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        self._jobs.append(job)
        return job


def finished(process: subprocess.Popen[str]) -> str:
    """What a process printed, once it has ended well."""
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return out


def wait_until(reached: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.005)
