"""The daemon of a run: the one that runs already, or one that is started for the run and ends with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.units import format_bytes
from neaptide.devices import chosen_device, find_kind
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths, runtime_paths
from neaptide.live.runs.starting import start_daemon, stop_daemon
from neaptide.policies.files import find_policy

DEFAULT_POLICY = "neaptide"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRequest:
    """What a run asks of its daemon; None leaves it to the daemon."""

    policy: str | None = None
    budget_bytes: int | None = None
    private: bool = False


@contextmanager
def daemon_for_file(wanted: DaemonRequest) -> Iterator[RuntimePaths]:
    """The running daemon if it suits, else a new one with its own board that ends with the run."""
    here = runtime_paths()
    if not wanted.private and running_pid(here) is not None:
        _check_suits(here, wanted)
        yield here
        return
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = tempfile.mkdtemp(prefix="neaptide-run-", dir=base if base and os.access(base, os.W_OK) else None)
    paths = RuntimePaths(Path(folder))
    try:
        _start(paths, wanted)
        yield paths
    finally:
        stop_daemon(paths)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def daemon_for_command(wanted: DaemonRequest) -> Iterator[RuntimePaths]:
    """The running daemon, or a new one that other jobs can join; a new one ends with the command if no job is left."""
    if wanted.private:
        with daemon_for_file(wanted) as paths:
            yield paths
        return
    paths = runtime_paths()
    if running_pid(paths) is not None:
        _check_suits(paths, wanted)
        yield paths
        return
    _start(paths, wanted)
    try:
        yield paths
    finally:
        if not jobs_left(paths):
            stop_daemon(paths)


def jobs_left(paths: RuntimePaths) -> int:
    """How many jobs of the daemon have not ended."""
    try:
        status = ask(paths, StatusRequest())
    except NoDaemonError:
        return 0
    assert isinstance(status, Status)
    return sum(not job.state.ended for job in status.jobs)


def _start(paths: RuntimePaths, wanted: DaemonRequest) -> None:
    policy = wanted.policy or DEFAULT_POLICY
    find_policy(policy)  # reports a faulty policy file here, and not in the daemon's log
    device = chosen_device()
    start_daemon(paths, policy, wanted.budget_bytes or find_kind(device.kind).default_budget_bytes(device.index))


def _check_suits(paths: RuntimePaths, wanted: DaemonRequest) -> None:
    """Raise ValueError if the running daemon has another policy or budget than the run asks for."""
    status = ask(paths, StatusRequest())
    assert isinstance(status, Status)
    differs = wanted.budget_bytes not in (None, status.budget_bytes)
    if wanted.policy is not None and find_policy(wanted.policy).name != status.policy:
        differs = True
    if differs:
        raise ValueError(
            f"a daemon runs already with policy {status.policy} and a budget of {format_bytes(status.budget_bytes)}; "
            "end it with neaptide down, or add --private to leave it alone"
        )
