"""`neaptide up`: start the daemon that lets jobs share the device."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter


def up(
    *,
    budget: Annotated[
        str | None, Parameter(help="What all jobs together may hold, such as 6GiB. Default: half the memory.")
    ] = None,
    policy: Annotated[str, Parameter(help="Who may do what, and when: a policy's name, or a .py file.")] = "neaptide",
    sms: Annotated[int | None, Parameter(help="How many cores the software GPU has. Default: all.")] = None,
    foreground: Annotated[bool, Parameter(help="Stay here and write to the terminal, as systemd wants it.")] = False,
) -> int:
    """Start the daemon."""
    from neaptide.core.units import format_bytes, parse_bytes
    from neaptide.live.protocol.paths import runtime_paths
    from neaptide.live.runs.starting import default_budget_bytes, start_daemon
    from neaptide.policies.files import find_policy

    budget_bytes = default_budget_bytes() if budget is None else parse_bytes(budget)
    if budget_bytes < 2 << 20:
        raise ValueError(f"a budget of {format_bytes(budget_bytes)} is too small; at least 2 MiB is needed")
    cores = len(os.sched_getaffinity(0))
    if sms is not None and not 1 <= sms <= 1024:
        raise ValueError(f"--sms must be between 1 and 1024, not {sms}")
    chosen = find_policy(policy)
    paths = runtime_paths()
    if foreground:
        from neaptide.live.daemon.server import serve

        return serve(paths, chosen, budget_bytes, sms or cores)
    status = start_daemon(paths, policy, budget_bytes, sms or cores)
    print(f"daemon up with pid {status.pid}: policy {status.policy}, budget {format_bytes(budget_bytes)}")
    return 0
