"""Where there is no GPU, a program that asks for `cuda` is given the software GPU.

`install` makes `cuda` a name of the soft device and has torch.cuda answer for it; the program is not changed, and its
operators cost what they cost on `soft`. What works and what cannot is in docs/cuda-as-soft.md. Only `devices.soft`
imports it.
"""

from __future__ import annotations

import torch

from neaptide.devices.soft.as_cuda.patches import Patches

_patches: list[Patches] = []  # one if it is installed


def install() -> bool:
    """Make `cuda` a name of `soft`. Returns False, changing nothing, where there is a GPU."""
    if _patches:
        return True
    if torch.cuda.is_available():
        return False
    from neaptide.devices.soft import registering  # noqa: F401 - makes the device
    from neaptide.devices.soft.as_cuda import answers, autocast, names, refusals, tensors

    patches = Patches()
    names.join()
    patches.when_undone(names.part)
    # Torch remembers the module of each device by its name, which changes here and when this is undone.
    torch.get_device_module.cache_clear()
    patches.when_undone(torch.get_device_module.cache_clear)
    try:
        for part in (answers, autocast, refusals, tensors):
            part.patch(patches)
    except BaseException:
        patches.undo()
        raise
    _patches.append(patches)
    return True


def installed() -> bool:
    """Whether `cuda` means `soft` in this process."""
    return bool(_patches)


def uninstall() -> None:
    """Undo `install`; devices and tensors made since read as `soft` again."""
    if _patches:
        _patches.pop().undo()


__all__ = ["install", "installed", "uninstall"]
