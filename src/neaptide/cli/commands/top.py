"""`neaptide top`: the jobs of the running daemon, until Ctrl-C."""

from __future__ import annotations


def top() -> int:
    """Show the daemon's jobs as they run; Ctrl-C ends the display and no job."""
    from neaptide.cli import console
    from neaptide.live.protocol.asking import watch
    from neaptide.live.protocol.paths import runtime_paths
    from neaptide.reporting.terminal.live_display import LiveDisplay

    out = console.stdout()
    try:
        with LiveDisplay(out) as display:
            for status in watch(runtime_paths()):
                display.show(status)
    except KeyboardInterrupt:
        return 0
    out.print("the daemon ended")
    return 0
