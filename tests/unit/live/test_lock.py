"""The lock of the daemon says which process holds it."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.live.protocol.lock import DaemonLock, running_pid
from neaptide.live.protocol.paths import RuntimePaths, prepare


def test_the_pid_of_the_daemon_is_known_while_it_holds_the_lock(tmp_path: Path) -> None:
    paths = RuntimePaths(tmp_path / "r")
    prepare(paths)
    assert running_pid(paths) is None
    with DaemonLock(paths):
        assert running_pid(paths) == os.getpid()
    assert running_pid(paths) is None


def test_a_pid_file_that_nobody_locks_names_no_daemon(tmp_path: Path) -> None:
    paths = RuntimePaths(tmp_path / "r")
    prepare(paths)
    paths.pid.write_text(f"{os.getpid()}\n")
    assert running_pid(paths) is None
