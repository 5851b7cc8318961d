"""Run more PyTorch jobs on one GPU than fit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from neaptide.fitting.run import fit
    from neaptide.live.job.attach import attach

__all__ = ["__version__", "attach", "fit"]

_LAZY = {"attach": "neaptide.live.job.attach", "fit": "neaptide.fitting.run"}


def __getattr__(name: str) -> Any:
    """What needs torch is loaded when it is first used, so that `import neaptide` loads none."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
