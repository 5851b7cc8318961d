"""Reports which modules and optimizers of the process run, through PyTorch's global hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import nn
from torch.compiler import is_dynamo_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class OptimizerWatcher(Protocol):
    """Receives the beginning and the end of each optimizer's step."""

    def enter_optimizer(self, optimizer: Optimizer) -> None: ...
    def leave_optimizer(self, optimizer: Optimizer) -> None: ...


class Watcher(OptimizerWatcher, Protocol):
    """Receives the beginning and the end of each module's forward, too, also of one that raises."""

    def enter_module(self, module: nn.Module, args: Any) -> None: ...
    def leave_module(self) -> None: ...


class OptimizerHooks:
    """The optimizer hooks of the process: installed for the first watcher and never removed.

    An iteration ends while an optimizer runs its hooks, and there watchers come and go. PyTorch forbids to add or
    remove hooks at that point, so the watchers are kept here.
    """

    def __init__(self) -> None:
        self._watchers: tuple[OptimizerWatcher, ...] = ()
        self._installed = False

    def add(self, watcher: OptimizerWatcher) -> None:
        """Report every step to `watcher`, after the watchers added before it."""
        if not self._installed:
            self._installed = True
            register_optimizer_step_pre_hook(lambda optimizer, *_: self._enter(optimizer))
            register_optimizer_step_post_hook(lambda optimizer, *_: self._leave(optimizer))
        self._watchers += (watcher,)

    def remove(self, watcher: OptimizerWatcher) -> None:
        """Report to `watcher` no more, from the next step on."""
        self._watchers = tuple(other for other in self._watchers if other is not watcher)

    # A step that the program compiles is compiled as it is: what watches it would break its graph.

    def _enter(self, optimizer: Optimizer) -> None:
        if is_dynamo_compiling():
            return
        for watcher in self._watchers:
            watcher.enter_optimizer(optimizer)

    def _leave(self, optimizer: Optimizer) -> None:
        if is_dynamo_compiling():
            return
        for watcher in self._watchers:
            watcher.leave_optimizer(optimizer)


OPTIMIZER_HOOKS = OptimizerHooks()


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Report every module and optimizer of the process to `watcher` while inside."""
    handles = (
        register_module_forward_pre_hook(lambda module, args: watcher.enter_module(module, args)),
        register_module_forward_hook(lambda *_: watcher.leave_module(), always_call=True),
    )
    OPTIMIZER_HOOKS.add(watcher)
    try:
        yield
    finally:
        OPTIMIZER_HOOKS.remove(watcher)
        for handle in handles:
            handle.remove()
