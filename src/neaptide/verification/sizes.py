"""Which sizes of the networks suit the device, and which budget makes two of them share it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from neaptide.devices import chosen_device, default_kind
from neaptide.live.runs.launching import JobCommand, environment_without_daemon
from neaptide.live.runs.without_neaptide import device_without_daemon
from neaptide.verification.facts import Load, Sizes
from neaptide.verification.single import run_to_its_end

NETWORKS = ("resnet50", "gpt2")
SHARE = 0.65  # of the sum of the jobs' peaks
_PART = 0.35  # of the device's memory that one job may hold, so that two fit side by side
_ITERATION_SECONDS = 0.25
_PROGRAM = "neaptide.verification.programs.sizing"


def suiting_loads(folder: Path) -> tuple[Load, ...]:
    """The networks at sizes that the device trains in a fraction of a second; ValueError if it cannot train them."""
    kind, file = default_kind(), folder / "sizes.json"
    most_bytes = round(_PART * kind.default_budget_bytes(chosen_device().index))
    words = (str(most_bytes), str(_ITERATION_SECONDS), str(file), *NETWORKS)
    job = JobCommand(name="sizes", command=(sys.executable, "-m", _PROGRAM, *words))
    with device_without_daemon(None) as (paths, _):
        result = run_to_its_end(job, environment_without_daemon(job, kind.settings_type(), paths.board), folder)
    if result.code or not file.exists():
        raise ValueError(f"no network could be trained on the device: {' '.join(result.last_lines[-1:]) or result.how}")
    return msgspec.json.decode(file.read_bytes(), type=Sizes).loads


def binding_budget(needs_bytes: Sequence[int], persistent_bytes: Sequence[int], chunk_bytes: int) -> int:
    """Less than the jobs hold side by side, and enough for one whole iteration beside what the others keep."""
    largest = max(need - kept for need, kept in zip(needs_bytes, persistent_bytes, strict=True))
    least = sum(persistent_bytes) + largest + chunk_bytes
    return -(-max(round(SHARE * sum(needs_bytes)), least) // chunk_bytes) * chunk_bytes
