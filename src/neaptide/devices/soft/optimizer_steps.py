"""Most of what an optimizer allocates outlives the iteration, so it is placed apart from ephemeral memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from neaptide.devices.soft.extension import native


def place_apart() -> None:
    """Have every optimizer step allocate among persistent memory."""
    register_optimizer_step_pre_hook(_begin)
    register_optimizer_step_post_hook(lambda *_: native.set_persistent(False))


def _begin(_: Optimizer, args: Any, kwargs: Any) -> Any:
    native.set_persistent(True)
    # Lightning gives the step a whole iteration to call; nothing that the iteration allocates persists.
    if len(args) > 1 and callable(args[1]):
        return (args[0], _ephemeral(args[1]), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _ephemeral(kwargs["closure"])}
    return None


def _ephemeral(closure: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        native.set_persistent(False)
        try:
            return closure()
        finally:
            native.set_persistent(True)

    return call
