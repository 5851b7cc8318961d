"""`neaptide up`: start the daemon that lets jobs share the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from neaptide.cli.device_flags import flags_of, kind_with_flags, no_flags_of
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.interface import DeviceSettings

if TYPE_CHECKING:
    _Settings = DeviceSettings
else:
    _Settings = flags_of(kind_with_flags().board_settings_type)
_NO_SETTINGS = no_flags_of(_Settings)


def up(
    *,
    budget: Annotated[
        str | None, Parameter(help="What all jobs together may hold, such as 6GiB. Default: half the memory.")
    ] = None,
    policy: Annotated[
        str,
        Parameter(help="The policy that decides which job runs when: a name, or a .py file. Default: neaptide."),
    ] = "neaptide",
    device: _Settings = _NO_SETTINGS,
    foreground: Annotated[bool, Parameter(help="Stay in the foreground, as systemd wants it.")] = False,
    line: Annotated[int | None, Parameter(show=False)] = None,
    until_unused: Annotated[bool, Parameter(show=False)] = False,
    temporary: Annotated[bool, Parameter(show=False)] = False,
) -> int:
    """Start the daemon. `line`, `until_unused` and `temporary` are for `live.runs.starting`."""
    from neaptide.core.control.job_limits import check_budget
    from neaptide.core.text import complain
    from neaptide.core.units import format_bytes, parse_bytes
    from neaptide.live.protocol.paths import runtime_paths
    from neaptide.live.runs.starting import start_daemon
    from neaptide.policies.files import find_policy

    kind, index = default_kind(), chosen_device().index
    budget_bytes = kind.default_budget_bytes(index) if budget is None else parse_bytes(budget)
    check_budget(budget_bytes, kind.chunk_bytes(index))
    for line_lost in device.lost():
        complain(line_lost)
    chosen = find_policy(policy)
    paths = runtime_paths()
    if foreground:
        from neaptide.live.daemon.server import Lifetime, serve

        lifetime = Lifetime(line=line, until_unused=until_unused, temporary=temporary)
        return serve(paths, chosen, budget_bytes, kind, device, lifetime)
    status = start_daemon(paths, policy, budget_bytes, device)
    print(f"daemon up with pid {status.pid}: policy {status.policy}, budget {format_bytes(budget_bytes)}")
    return 0
