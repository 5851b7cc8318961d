"""A daemon refuses a policy that needs what its device cannot do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from neaptide.core.control.policy import Need
from neaptide.devices import default_kind
from neaptide.devices.board import Board, Region
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.clock import LoopClock
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.policies.files import find_policy

MIB = 1 << 20


def without(need: Need) -> DeviceKind:
    class Without(type(default_kind())):  # type: ignore[misc]
        supplies = default_kind().supplies - {need}

    kind: DeviceKind = Without()
    return kind


@pytest.mark.parametrize(
    ("policy", "kind", "need"),
    [
        ("herald", without(Need.GATE), "gate"),
        ("mig", without(Need.SHARES), "shares"),
        ("spatial-paged", without(Need.PAGING), "paging"),
    ],
)
def test_a_policy_that_needs_what_the_device_cannot_do_is_refused(
    policy: str, kind: DeviceKind, need: str, tmp_path: Path
) -> None:
    board, loop = Board.create(tmp_path / "board", 100 * MIB, Region("soft", 1)), asyncio.new_event_loop()
    loop.close()

    def start(with_policy: str) -> None:
        Daemon(board, RuntimePaths(tmp_path), find_policy(with_policy), 100 * MIB, LoopClock(loop), print, kind=kind)

    start("temporal")
    with pytest.raises(ValueError, match=f"policy {policy} needs what this device cannot supply: {need}$"):
        start(policy)
