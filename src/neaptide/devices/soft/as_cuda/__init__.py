"""Where there is no GPU, a program that asks for `cuda` is given the software GPU.

`install` makes `cuda` a name of the soft device and has torch.cuda answer for it; the program is not changed, and its
operators cost what they cost on `soft`. What works and what cannot is in docs/cuda-as-soft.md.
"""

from __future__ import annotations

import sys

import torch

from neaptide.devices.soft.as_cuda.patches import Patches

_patches: list[Patches] = []  # one if it is installed


def install() -> bool:
    """Make `cuda` a name of `soft`, and print that once. Returns False, changing nothing, where there is a GPU."""
    if _patches:
        return True
    if torch.cuda.is_available():
        return False
    from neaptide.devices import soft  # noqa: F401 - makes the device
    from neaptide.devices.soft.as_cuda import answers, autocast, names, refusals, tensors

    patches = Patches()
    names.join()
    patches.when_undone(names.part)
    try:
        for part in (answers, autocast, refusals, tensors):
            part.patch(patches)
    except BaseException:
        patches.undo()
        raise
    _patches.append(patches)
    print("neaptide: there is no GPU here, so cuda means the software GPU (soft)", file=sys.stderr, flush=True)
    return True


def installed() -> bool:
    """Whether `cuda` means `soft` in this process."""
    return bool(_patches)


def uninstall() -> None:
    """Undo `install`; devices and tensors made since read as `soft` again."""
    if _patches:
        _patches.pop().undo()


__all__ = ["install", "installed", "uninstall"]
