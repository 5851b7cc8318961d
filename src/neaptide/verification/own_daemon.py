"""A daemon for one run of a verification: it ends with the run, however the run ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.starting import start_daemon_for_run, starting_alone, stop_daemon


@contextmanager
def own_daemon(paths: RuntimePaths, policy: str, budget_bytes: int) -> Iterator[None]:
    """Inside, a daemon runs in `paths`; it also ends when this process is killed."""
    with starting_alone(paths):
        line, _ = start_daemon_for_run(paths, policy, budget_bytes)
    with line:
        try:
            yield
        finally:
            stop_daemon(paths)
