"""Asks for more than the budget, catches the error and goes on: python -m ... BYTES FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import torch

from neaptide.verification.facts import Refusal

_SMALL = 1 << 20


def main(asked_bytes: str, file: str) -> None:
    """Write what torch said."""
    device = torch.accelerator.current_accelerator()
    assert device is not None, "the program finds no device"
    before = torch.full((_SMALL,), 7, dtype=torch.uint8, device=device)
    said = ""
    try:
        torch.empty(int(asked_bytes), dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError as error:
        said = str(error)
    after = before.clone()
    went_on = bool((after.cpu() == 7).all())
    Path(file).write_bytes(msgspec.json.encode(Refusal(said, int(asked_bytes), went_on)))


if __name__ == "__main__":
    main(*sys.argv[1:])
