"""The device for these tests: one SM, so that results equal those of one CPU thread bit by bit."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

os.environ.setdefault("NEAPTIDE_SOFT_SMS", "1")
os.environ.setdefault("NEAPTIDE_SOFT_CAPACITY", "1GiB")
os.environ.setdefault("NEAPTIDE_SOFT_WAIT", "5")
torch.set_num_threads(1)

try:
    import neaptide.devices.soft  # noqa: F401 - makes the device
except RuntimeError as error:
    _impossible: str | None = str(error)
else:
    _impossible = None


collect_ignore_glob = ["test_*.py"] if _impossible else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _impossible:
        terminalreporter.write_line(f"tests/soft was skipped: {_impossible}")


@pytest.fixture(autouse=True)
def clean_device() -> Iterator[None]:
    """After every test the device is idle, its gates are open and it has no cap."""
    yield
    torch.soft.open_launch_gate()
    torch.soft.open_execution_gate()
    torch.soft.set_in_flight_cap(None)
    torch.soft.synchronize()
