"""Starts a daemon in the background, and ends one."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from neaptide.devices.board.library import NATIVE
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.asking import ANSWER_SECONDS, NoDaemonError, SilentDaemonError, ask, ask_on
from neaptide.live.protocol.lock import DaemonRunsError, running_pid
from neaptide.live.protocol.messages import Shutdown, Status, Use
from neaptide.live.protocol.paths import RuntimePaths, prepare

POLL_SECONDS = 0.02
_START_SECONDS = 60.0  # that a daemon has to come up
_MOST_LOG_BYTES = 1 << 20


class StartError(ValueError):
    """The daemon did not come up."""


def start_daemon(
    paths: RuntimePaths,
    policy: str,
    budget_bytes: int,
    settings: DeviceSettings | None = None,
) -> Status:
    """Start a daemon in the background and return when it answers; ValueError with its last line if it does not.

    `policy` is a name or the path of a file; `settings` are those of the chosen device's board.
    """
    with starting_alone(paths):
        if (pid := running_pid(paths)) is not None:
            raise DaemonRunsError(f"a daemon with pid {pid} runs for this device already ({paths.folder})")
        line, status = _start(paths, _words(policy, budget_bytes, settings))
    line.close()
    return status


def start_daemon_for_run(
    paths: RuntimePaths, policy: str, budget_bytes: int, *, temporary: bool = False
) -> tuple[socket.socket, Status]:
    """Start a daemon that ends when no run uses it and it has no job; the first use lasts until the socket is closed.

    A `temporary` one makes its folder and removes it. Nobody else may start a daemon in `paths` meanwhile.
    """
    words = [*_words(policy, budget_bytes), "--until-unused", *(["--temporary"] if temporary else [])]
    return _start(paths, words)


@contextmanager
def starting_alone(paths: RuntimePaths) -> Iterator[None]:
    """Inside, no other process starts a daemon in `paths`. The kernel takes the lock back when this process is gone."""
    NATIVE.built()  # others should not wait while this process compiles
    prepare(paths)
    file = os.open(paths.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    until = monotonic() + _START_SECONDS
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > until:
                    where = paths.folder
                    raise StartError(
                        f"another process has been starting the daemon in {where} for {_START_SECONDS:g} s"
                    ) from None
            sleep(POLL_SECONDS)
        yield
    finally:
        os.close(file)


def _start(paths: RuntimePaths, words: Sequence[str]) -> tuple[socket.socket, Status]:
    """Start a daemon with an open connection to this process, over which it says that it is up."""
    NATIVE.built()  # reports a missing compiler here, and not in the daemon's log
    line, theirs = socket.socketpair()
    line.settimeout(_START_SECONDS)
    with theirs, _log(paths) as log:
        began_at = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-m", "neaptide.cli", *words, "--line", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "NEAPTIDE_RUNTIME": str(paths.folder)},
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        try:
            status = ask_on(line, Use())
            assert isinstance(status, Status)
        except BaseException as error:
            line.close()
            if not isinstance(error, NoDaemonError) or isinstance(error, SilentDaemonError):
                process.terminate()
            process.wait()
            if isinstance(error, SilentDaemonError):
                raise StartError(f"the daemon did not answer within {_START_SECONDS:g} s; see {paths.log}") from None
            if isinstance(error, NoDaemonError):
                raise StartError(f"the daemon did not come up: {_why(paths, log, began_at)}") from None
            raise
    process.returncode = 0  # the daemon outlives this process, so nothing waits for it
    line.settimeout(ANSWER_SECONDS)
    return line, status


def stop_daemon(paths: RuntimePaths, seconds: float = 20.0) -> bool:
    """End the daemon and return when it is gone; False when none runs, ValueError when it does not end."""
    pid = running_pid(paths)
    if pid is None:
        return False
    with suppress(NoDaemonError):  # the daemon may be starting, or ending already
        ask(paths, Shutdown())
    deadline = monotonic() + seconds
    while running_pid(paths) == pid:
        if monotonic() > deadline:
            raise ValueError(f"the daemon with pid {pid} is still there after {seconds:g} s; end it with kill -9 {pid}")
        sleep(POLL_SECONDS)
    return True


def _words(policy: str, budget_bytes: int, settings: DeviceSettings | None = None) -> list[str]:
    if policy.endswith(".py"):
        policy = str(Path(policy).absolute())
    return ["up", "--foreground", "--policy", policy, "--budget", str(budget_bytes), *_flags(settings)]


def _flags(settings: DeviceSettings | None) -> list[str]:
    given = {} if settings is None else {each.name: getattr(settings, each.name) for each in fields(settings)}
    words: list[str] = []
    for name, value in given.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words


def _log(paths: RuntimePaths) -> IO[bytes]:
    """The file for what the daemon prints; a file without a name if the daemon has yet to make its folder."""
    if not paths.folder.is_dir():
        return tempfile.TemporaryFile()
    with suppress(OSError):
        if paths.log.stat().st_size > _MOST_LOG_BYTES:
            paths.log.replace(paths.log.with_name(f"{paths.log.name}.1"))
    return paths.log.open("ab+")


def _why(paths: RuntimePaths, log: IO[bytes], began_at: int) -> str:
    """What the daemon said last."""
    log.seek(began_at)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if lines:
        return lines[-1].removeprefix("neaptide: ")
    try:
        os.write(log.fileno(), b"\n")
    except OSError as error:  # a full disk
        return f"nothing can be written to {paths.log}: {error.strerror}"
    return "it printed nothing"
