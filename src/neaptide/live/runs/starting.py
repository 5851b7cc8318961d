"""Starts a daemon in the background, and ends one."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from time import monotonic, sleep

from neaptide.devices.board.library import NATIVE
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.lock import DaemonRunsError, running_pid
from neaptide.live.protocol.messages import Shutdown, Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths, prepare

_POLL_SECONDS = 0.02
_MOST_LOG_BYTES = 1 << 20


class StartError(ValueError):
    """The daemon did not come up."""


def start_daemon(
    paths: RuntimePaths,
    policy: str,
    budget_bytes: int,
    settings: DeviceSettings | None = None,
    seconds: float = 60.0,
) -> Status:
    """Start a daemon in the background and return when it answers; ValueError with its last line if it does not.

    `policy` is a name or the path of a file; `settings` are those of the chosen device's board.
    """
    prepare(paths)
    if (pid := running_pid(paths)) is not None:
        raise DaemonRunsError(f"a daemon with pid {pid} runs for this device already ({paths.folder})")
    NATIVE.built()  # reports a missing compiler here, and not in the daemon's log
    if policy.endswith(".py"):
        policy = str(Path(policy).absolute())
    words = ["up", "--foreground", "--policy", policy, "--budget", str(budget_bytes), *_flags(settings)]
    environment = {**os.environ, "NEAPTIDE_RUNTIME": str(paths.folder)}
    _rotate(paths.log)
    with paths.log.open("ab") as log:
        began_at = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "neaptide.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            close_fds=True,
        )
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(_last_line(paths.log, began_at))
        with suppress(NoDaemonError):
            answer = ask(paths, StatusRequest())
            if isinstance(answer, Status) and answer.pid == process.pid:
                process.returncode = 0  # the daemon outlives this process, so nothing waits for it
                return answer
        sleep(_POLL_SECONDS)
    process.terminate()
    process.wait()
    raise StartError(f"the daemon did not answer within {seconds:g} s; see {paths.log}")


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
            raise ValueError(f"the daemon with pid {pid} is still there after {seconds:g} s; end it with kill {pid}")
        sleep(_POLL_SECONDS)
    return True


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


def _rotate(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size > _MOST_LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))


def _last_line(log: Path, began_at: int) -> str:
    with log.open("rb") as file:
        file.seek(began_at)
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    last = lines[-1].removeprefix("neaptide: ") if lines else "it printed nothing"
    return f"the daemon did not come up: {last}"
