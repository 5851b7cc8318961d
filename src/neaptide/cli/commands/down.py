"""`neaptide down`: end the daemon; jobs go on without it."""

from __future__ import annotations


def down() -> int:
    """End the daemon, and return when it is gone."""
    from neaptide.live.protocol.paths import runtime_paths
    from neaptide.live.runs.starting import stop_daemon

    paths = runtime_paths()
    print("daemon down" if stop_daemon(paths) else f"no daemon runs in {paths.folder}")
    return 0
