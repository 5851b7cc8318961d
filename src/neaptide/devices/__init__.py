"""Devices that jobs share. Each is one folder with a `kind.py`; `interface` says what a device must do.

Everything above imports this package, `devices.interface`, `devices.board` and `devices.local`, and no device; commands
and `verification` import `devices.checkup`, too. Of these only `devices.local` needs torch. docs/writing-a-device.md
says what the author of a device imports.

NEAPTIDE_DEVICE names the device to use: a kind and an index such as `soft:0`, or the path of a `kind.py` of one's own,
which sets `KIND` to a DeviceKind. `default_device` decides what is used without it.
"""

from __future__ import annotations

import os
import sys
from functools import cache, partial
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from neaptide.core.control.need import Need
from neaptide.core.registry import Registry
from neaptide.devices.board import Board, Region
from neaptide.devices.gpu_presence import torch_finds_gpu
from neaptide.devices.interface import (
    BoardFullError,
    DeviceAgent,
    DeviceKind,
    DeviceName,
    DeviceSettings,
    GpuPresentError,
    IterationFacts,
    KernelLog,
    KernelRecord,
    LocalDevice,
    MemoryFigures,
    setting,
)

__all__ = [
    "KINDS",
    "Board",
    "BoardFullError",
    "DeviceAgent",
    "DeviceKind",
    "DeviceName",
    "DeviceSettings",
    "GpuPresentError",
    "IterationFacts",
    "KernelLog",
    "KernelRecord",
    "LocalDevice",
    "MemoryFigures",
    "Need",
    "Region",
    "chosen_device",
    "default_device",
    "default_kind",
    "find_kind",
    "parse_device_name",
    "setting",
]

_HERE = Path(__file__).parent


def _builtin(name: str) -> DeviceKind:
    return _load(_HERE / name / "kind.py", f"{__name__}.{name}.kind")


KINDS: Registry[DeviceKind] = Registry("device", {name: partial(_builtin, name) for name in ("soft", "fake", "cuda")})


def find_kind(name_or_path: str) -> DeviceKind:
    """A kind by its name, or by the path of its `kind.py`; ValueError with one clear line if there is none."""
    if name_or_path.endswith(".py"):
        return _kind_of_file(Path(name_or_path).absolute())
    return KINDS.make(name_or_path)


def default_device() -> DeviceName:
    """The device to use when the user names none. Changes nothing.

    GpuPresentError where torch finds a GPU: programs would use it, and nothing would be shared.
    """
    if torch_finds_gpu():
        raise GpuPresentError
    return DeviceName("soft")


def chosen_device() -> DeviceName:
    """The device that NEAPTIDE_DEVICE names, or the default one. Changes nothing."""
    named = os.environ.get("NEAPTIDE_DEVICE")
    return parse_device_name(named) if named else default_device()


def default_kind() -> DeviceKind:
    """The kind of the chosen device."""
    return find_kind(chosen_device().kind)


def parse_device_name(text: str) -> DeviceName:
    """A device from `kind:index` or `kind`, where the kind is a name or the path of a `kind.py`; else ValueError."""
    kind, colon, index = text.rpartition(":")
    if not colon or not index.isdecimal():
        kind, index = text, "0"
    if kind.endswith(".py"):
        return DeviceName(str(Path(kind).absolute()), int(index))
    KINDS.check(kind)
    return DeviceName(kind, int(index))


@cache
def _kind_of_file(path: Path) -> DeviceKind:
    if not path.is_file():
        raise ValueError(f"there is no device file {path}")
    # Its folder becomes a package of its own, so that `from .agent import Agent` works in it. Two folders may have the
    # same name, so the package's name has a digest of the whole path.
    package = f"neaptide_device_{path.parent.name}_{sha256(bytes(path)).hexdigest()[:8]}"
    folder = sys.modules[package] = ModuleType(package)
    folder.__path__ = [str(path.parent)]
    return _load(path, f"{package}.{path.stem}")


def _load(path: Path, module_name: str) -> DeviceKind:
    """The KIND of a file, which is run without the package it is in: importing a device's package may start it."""
    module = sys.modules.get(module_name)
    if module is None:
        spec = spec_from_file_location(module_name, path)
        assert spec is not None, f"{path} ends in .py"
        assert spec.loader is not None
        module = sys.modules[module_name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    kind: DeviceKind | None = getattr(module, "KIND", None)
    if kind is None:
        raise ValueError(f"{path}: a device file sets KIND to its DeviceKind, and this one does not")
    return kind
