"""Most of what an optimizer allocates outlives the iteration, so it is placed apart from ephemeral memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

SetPersistent = Callable[[bool], None]


def place_apart(set_persistent: SetPersistent) -> None:
    """Have every optimizer step allocate among persistent memory; the function says where blocks go from now on."""

    def begin(_: Optimizer, args: Any, kwargs: Any) -> Any:
        if is_dynamo_compiling():  # a call of native code would break the graph of a step that the program compiles
            return None
        set_persistent(True)
        # Lightning gives the step a whole iteration to call; nothing that the iteration allocates persists.
        if len(args) > 1 and callable(args[1]):
            return (args[0], _ephemeral(args[1], set_persistent), *args[2:]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": _ephemeral(kwargs["closure"], set_persistent)}
        return None

    def end(*_: Any) -> None:
        if not is_dynamo_compiling():
            set_persistent(False)

    register_optimizer_step_pre_hook(begin)
    register_optimizer_step_post_hook(end)


def _ephemeral(closure: Callable[[], Any], set_persistent: SetPersistent) -> Callable[[], Any]:
    def call() -> Any:
        set_persistent(False)
        try:
            return closure()
        finally:
            set_persistent(True)

    return call
