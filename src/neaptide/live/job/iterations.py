"""Finds the iterations of a running program: by the steps of its optimizers and the calls of its models.

- A training iteration begins with a call of an outermost module and ends with an optimizer's step. Of several
  optimizers, the one that was the last to make its first step closes it. So gradient accumulation, several models and
  several optimizers are one iteration, and what is between a step and the next call (reading the loss, clearing
  gradients, copying the next batch) still belongs to the one before.
- An evaluation between training iterations is one iteration per call: nobody is held up by a whole evaluation phase.
  Such a call has gradients off and the module in evaluation mode. A call that every training iteration makes in this
  way (a teacher's) is no evaluation, but part of it.
- Before any optimizer has stepped, every call is an iteration; without gradients (serving) it ends with the call.

Only the outermost calls cost anything: a nested one costs a test.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

# Of how many training iterations those calls are kept that all of them make.
_LEARNING = 8
# An optimizer that steps so often more than it ever did within an iteration closes them from now on.
_PATIENCE = 16

_Call = tuple[int, bool, bool]  # which module, with gradients, in training mode


class Listener(Protocol):
    """Is told on the program's own thread, between its launches."""

    def begin(self, serving: bool, trained: bool) -> None:
        """An iteration begins; `serving`: it is one call without gradients; `trained`: an optimizer has stepped."""

    def end_forward(self) -> None:
        """The forward pass of the iteration was launched."""

    def end(self) -> None:
        """The iteration was launched."""

    def change(self) -> None:
        """From now on another optimizer closes the iterations."""


class Iterations:
    """Watches the process's modules and optimizers from `install` to `remove`."""

    def __init__(self, listener: Listener, device_type: str) -> None:
        self._listener = listener
        self._device_type = device_type
        self._inside = False  # an outermost call
        self._open = False
        self._serving = False  # the open one is a single call
        self._calls = 0  # outermost ones in the open iteration
        self._usual_calls = 1
        self._closing: int | None = None  # the optimizer that closes iterations
        self._steps: dict[int, int] = {}  # of each optimizer since an iteration was last closed
        self._most_steps: dict[int, int] = {}
        self._calls_seen: set[_Call] = set()
        self._calls_of_all: set[_Call] | None = None
        self._to_learn = _LEARNING
        self._original: Any = None
        self._handle: RemovableHandle | None = None

    def install(self) -> None:
        """Begin to watch."""
        # A global forward hook would cost every module of the process microseconds per call.
        original = self._original = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(module, *args, **kwargs)
            return self._call_outermost(original, module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        self._handle = register_optimizer_step_post_hook(lambda optimizer, *_: self._stepped(optimizer))

    def remove(self) -> None:
        """Watch no more."""
        if self._handle is not None:
            self._handle.remove()
            nn.Module.__call__ = self._original  # type: ignore[method-assign]
            self._handle = None

    # --- calls

    def _call_outermost(self, original: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        # Checkpointing calls modules again inside the backward pass; a loss is a module without parameters.
        parameter = None if torch._C._current_graph_task_id() != -1 else next(module.parameters(), None)
        if parameter is None or parameter.device.type != self._device_type:
            return original(module, *args, **kwargs)
        self._enter(module)
        self._inside = True
        try:
            return original(module, *args, **kwargs)
        finally:
            self._inside = False
            self._leave()

    def _enter(self, module: nn.Module) -> None:
        gradients = torch.is_grad_enabled()
        call = (id(module), gradients, module.training)
        if self._to_learn:
            self._calls_seen.add(call)
        if self._closing is None:
            self._end()  # nothing else closes it
            self._begin(serving=not gradients)
        elif not self._open:
            expected = self._calls_of_all is not None and call in self._calls_of_all
            self._begin(serving=not gradients and not module.training and not expected)
        self._calls += 1

    def _leave(self) -> None:
        if self._serving:
            self._end()
        elif self._open and self._calls == self._usual_calls:
            self._listener.end_forward()

    # --- optimizers

    def _stepped(self, optimizer: Optimizer) -> None:
        parameters = optimizer.param_groups[0]["params"]
        if not parameters or parameters[0].device.type != self._device_type:
            return
        name = id(optimizer)
        steps = self._steps[name] = self._steps.get(name, 0) + 1
        if name not in self._most_steps or steps > 2 * self._most_steps[name] + _PATIENCE:
            self._most_steps[name] = steps
            self._closing = name
            self._calls_seen.clear()
            self._calls_of_all, self._to_learn = None, _LEARNING
            self._listener.change()
        elif name == self._closing and self._to_learn:
            seen = self._calls_seen
            self._calls_of_all = set(seen) if self._calls_of_all is None else self._calls_of_all & seen
            self._calls_seen.clear()
            self._to_learn -= 1
        if name == self._closing:
            self._close()

    def _close(self) -> None:
        for name, steps in self._steps.items():
            self._most_steps[name] = max(steps, self._most_steps[name])
        self._steps.clear()
        called = self._calls > 0
        if called:
            self._usual_calls = self._calls
        self._end()
        if not called:  # a program without modules: the next iteration begins here
            self._begin(serving=False)

    # --- both

    def _begin(self, serving: bool) -> None:
        self._open, self._serving, self._calls = True, serving, 0
        self._listener.begin(serving, self._closing is not None)

    def _end(self) -> None:
        if self._open:
            self._open = self._serving = False
            self._calls = 0
            self._listener.end()
