"""The C++ part, loaded on first import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neaptide.native_library import RULES
from neaptide.torch_extension import TorchExtension

_HERE = Path(__file__).parent
_NATIVE = _HERE.parent / "native"
EXTENSION = TorchExtension(
    name="neaptide_soft",
    what="the soft device",
    folders=(_HERE / "csrc", _HERE / "csrc" / "sm_queue", _NATIVE, _NATIVE / "launch", _NATIVE / "python", RULES),
    flags=("-O2", "-std=c++20", "-fopenmp", "-Wall"),
    link=("-lgomp", "-lrt"),
    torch_release="2.13",
)

native: Any = EXTENSION.load()
