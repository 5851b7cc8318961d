"""A job's process under its keeper (`keeper.py`), as the run sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_KEEPER = Path(__file__).with_name("keeper.py")


class KeptProcess:
    """A command that ends, with all processes below it, when this object or this process is gone.

    With an `output` it has a process group of its own, no input, and prints to that file. Without one it has this
    process's group, input and output, and may be made to ignore Ctrl-C. OSError when the command cannot be executed.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path | None,
        output: IO[bytes] | None = None,
        ignores_interrupts: bool = False,
    ) -> None:
        self._line, theirs = socket.socketpair()
        group = "own" if output else "ignoring" if ignores_interrupts else "shared"
        words = [sys.executable, "-I", "-S", str(_KEEPER), str(theirs.fileno()), group]
        with theirs:
            self._process = subprocess.Popen(
                words,
                stdin=None if output is None else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                process_group=None if output is None else 0,
            )
        packed = [str(len(command)).encode(), *map(os.fsencode, command)]
        with suppress(ConnectionError):  # the keeper was killed; `poll` says so
            self._line.sendall(b"".join(word + b"\0" for word in packed))
            if (problem := self._line.recv(1)) not in (b"", b"\0"):
                self._process.wait()
                self._line.close()
                raise OSError(problem[0], os.strerror(problem[0]), command[0])

    def poll(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it; None while it runs."""
        if (code := self._process.poll()) is not None:
            self._line.close()
        return code

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for the end, and return what `poll` does; None when the end has not come in that time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes; a stopped one goes on."""
        with suppress(OSError):  # the process has just ended
            self._process.send_signal(signal.SIGCONT)  # the keeper, too, may be stopped
            self._line.sendall(bytes([number]))
