"""The framework's global hooks, for whoever wants to know which modules and optimizers run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class Watcher(Protocol):
    """Is told when a module's forward and an optimizer's step begin and end, also when they end by raising."""

    def enter_module(self, module: nn.Module, args: Any) -> None: ...
    def leave_module(self) -> None: ...
    def enter_optimizer(self, optimizer: torch.optim.Optimizer) -> None: ...
    def leave_optimizer(self, optimizer: torch.optim.Optimizer) -> None: ...


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell `watcher` of every module and optimizer of the process while inside."""
    handles = (
        register_module_forward_pre_hook(lambda module, args: watcher.enter_module(module, args)),
        register_module_forward_hook(lambda *_: watcher.leave_module(), always_call=True),
        register_optimizer_step_pre_hook(lambda optimizer, *_: watcher.enter_optimizer(optimizer)),
        register_optimizer_step_post_hook(lambda optimizer, *_: watcher.leave_optimizer(optimizer)),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
