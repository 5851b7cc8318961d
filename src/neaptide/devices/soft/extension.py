"""The C++ part, loaded and started on first import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neaptide.devices.soft import settings
from neaptide.native_library import RULES
from neaptide.torch_extension import TorchExtension

_HERE = Path(__file__).parent
_NATIVE = _HERE.parent / "native"
EXTENSION = TorchExtension(
    name="neaptide_soft",
    what="the soft device",
    folders=(_HERE / "csrc", _HERE / "csrc" / "sm_queue", _NATIVE, _NATIVE / "launch", RULES),
    flags=("-O2", "-std=c++20", "-fopenmp", "-Wall"),
    link=("-lgomp", "-lrt"),
    torch_release="2.13",
)

_chosen = settings.read()
native: Any = EXTENSION.load()
native.start(
    _chosen.board,
    _chosen.capacity,
    _chosen.sms,
    _chosen.width,
    _chosen.job,
    _chosen.wait_seconds,
)
