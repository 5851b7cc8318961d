"""`neaptide up`: start the daemon that lets jobs share the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from neaptide.cli.device_flags import flags_of
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.interface import DeviceSettings

if TYPE_CHECKING:
    _Settings = DeviceSettings
else:
    _Settings = flags_of(default_kind().board_settings_type)
_NO_SETTINGS: DeviceSettings = default_kind().board_settings_type()


def up(
    *,
    budget: Annotated[
        str | None, Parameter(help="What all jobs together may hold, such as 6GiB. Default: half the memory.")
    ] = None,
    policy: Annotated[
        str, Parameter(help="The policy that decides which job runs when: a name, or a .py file.")
    ] = "neaptide",
    device: _Settings = _NO_SETTINGS,
    foreground: Annotated[bool, Parameter(help="Stay here and write to the terminal, as systemd wants it.")] = False,
) -> int:
    """Start the daemon."""
    from neaptide.core.units import format_bytes, parse_bytes
    from neaptide.live.protocol.paths import runtime_paths
    from neaptide.live.runs.starting import start_daemon
    from neaptide.policies.files import find_policy

    kind = default_kind()
    budget_bytes = kind.default_budget_bytes(chosen_device().index) if budget is None else parse_bytes(budget)
    if budget_bytes < kind.chunk_bytes:
        least = format_bytes(kind.chunk_bytes)
        raise ValueError(f"a budget of {format_bytes(budget_bytes)} is too small; at least {least} is needed")
    chosen = find_policy(policy)
    paths = runtime_paths()
    if foreground:
        from neaptide.live.daemon.server import serve

        return serve(paths, chosen, budget_bytes, kind, device)
    status = start_daemon(paths, policy, budget_bytes, device)
    print(f"daemon up with pid {status.pid}: policy {status.policy}, budget {format_bytes(budget_bytes)}")
    return 0
