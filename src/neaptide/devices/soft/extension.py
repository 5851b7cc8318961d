"""The C++ part, loaded and started on first import."""

from __future__ import annotations

from typing import Any

from neaptide.devices.soft import build, settings

_chosen = settings.read()
native: Any = build.load()
native.start(
    _chosen.board,
    _chosen.capacity,
    _chosen.sms,
    _chosen.width,
    _chosen.job,
    _chosen.wait_seconds,
)
