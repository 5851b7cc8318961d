"""Holds the device's kernels back, so that a test sees kernels that are launched and have not run."""

from __future__ import annotations

import torch


def hold() -> None:
    """Kernels launched from here on wait."""
    torch.soft.close_execution_gate()


def let_go() -> None:
    torch.soft.open_execution_gate()
