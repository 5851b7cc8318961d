"""The daemon of a run: the one that runs already, or one that is started for runs.

A run keeps a connection to its daemon open, from the start of the daemon on. The kernel closes it however the run ends.
A daemon that was started for runs ends when no such connection is left and no job is attached, so that runs can share
one, and none is left behind.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep

from neaptide.core.units import format_bytes
from neaptide.devices import chosen_device, find_kind
from neaptide.live.protocol.asking import NoDaemonError, SilentDaemonError, ask_on, open_line
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import Status, StopUse, Use, UseStopped
from neaptide.live.protocol.paths import RuntimePaths, runtime_paths, temporary_paths
from neaptide.live.runs.starting import POLL_SECONDS, start_daemon_for_run, starting_alone
from neaptide.policies.files import find_policy

DEFAULT_POLICY = "neaptide"
_PATIENCE_SECONDS = 20.0  # with a daemon that starts or ends


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRequest:
    """What a run asks of its daemon; None leaves it to the daemon."""

    policy: str | None = None
    budget_bytes: int | None = None
    private: bool = False


@contextmanager
def daemon_for_file(wanted: DaemonRequest) -> Iterator[RuntimePaths]:
    """The running daemon, or else a new one with its own board that ends with the run.

    ValueError when the running one has another policy or budget than the run asks for.
    """
    here = runtime_paths()
    if not wanted.private and (joined := _join(here)) is not None:
        with _used(here, *joined, wanted):
            yield here
        return
    paths = temporary_paths()
    try:
        with _used(paths, *_start(paths, wanted, temporary=True), wanted):
            yield paths
    finally:
        shutil.rmtree(paths.folder, ignore_errors=True)  # the daemon does so, too, if it can


@contextmanager
def daemon_for_command(wanted: DaemonRequest) -> Iterator[RuntimePaths]:
    """The running daemon, on the same condition, or a new one that other runs can use, too."""
    if wanted.private:
        with daemon_for_file(wanted) as paths:
            yield paths
        return
    paths = runtime_paths()
    if (joined := _join(paths)) is None:
        with starting_alone(paths):
            joined = _join(paths) or _start(paths, wanted)
    with _used(paths, *joined, wanted):
        yield paths


def _join(paths: RuntimePaths) -> tuple[socket.socket, Status] | None:
    """Begin to use the daemon that runs; None when none does. Waits for one that is about to start or to end."""
    until = monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            line = open_line(paths)
            try:
                status = ask_on(line, Use())
            except BaseException:
                line.close()
                raise
            assert isinstance(status, Status)
            return line, status
        except SilentDaemonError:
            raise
        except NoDaemonError:
            if running_pid(paths) is None:
                return None
            if monotonic() > until:
                raise
        sleep(POLL_SECONDS)


def _start(paths: RuntimePaths, wanted: DaemonRequest, temporary: bool = False) -> tuple[socket.socket, Status]:
    policy = wanted.policy or DEFAULT_POLICY
    find_policy(policy)  # reports a faulty policy file here, and not in the daemon's log
    device = chosen_device()
    budget_bytes = wanted.budget_bytes or find_kind(device.kind).default_budget_bytes(device.index)
    return start_daemon_for_run(paths, policy, budget_bytes, temporary=temporary)


@contextmanager
def _used(paths: RuntimePaths, line: socket.socket, status: Status, wanted: DaemonRequest) -> Iterator[None]:
    """Use a daemon over an open connection; ValueError when it has another policy or budget than the run asks for."""
    with line:
        _check_suits(status, wanted)
        yield
        try:
            answer = ask_on(line, StopUse())
        except NoDaemonError:
            return
    until = monotonic() + _PATIENCE_SECONDS
    ends = isinstance(answer, UseStopped) and answer.ends
    while ends and running_pid(paths) == status.pid and monotonic() < until:
        sleep(POLL_SECONDS)


def _check_suits(status: Status, wanted: DaemonRequest) -> None:
    differs = wanted.budget_bytes not in (None, status.budget_bytes)
    if wanted.policy is not None and find_policy(wanted.policy).name != status.policy:
        differs = True
    if differs:
        raise ValueError(
            f"a daemon runs already with policy {status.policy} and a budget of {format_bytes(status.budget_bytes)}; "
            "end it with neaptide down, or add --private to leave it alone"
        )
