"""Finds where the iterations of a running program begin and end. The profiler, `fit` and live jobs all use this rule.

- A training iteration begins with a call of an outermost module and ends with an optimizer's step. Of several
  optimizers, the one whose first step came last closes the iteration. So gradient accumulation, several models and
  several optimizers make one iteration. What the program does between a step and the next call (reading the loss,
  clearing gradients, copying the next batch) belongs to the iteration before.
- If the closing optimizer stops stepping while another one goes on, the other one closes the iterations from then on.
- During training, a call with gradients off and the module in evaluation mode is an evaluation: each such call is an
  iteration of its own, so that other jobs wait for one call and not for a whole evaluation. A call that every training
  iteration makes in this way (a teacher's) is part of the training iteration.
- Before any optimizer has stepped, every call begins an iteration. A call without gradients (serving) also ends it.
- A program that calls no module has one iteration from step to step.

Only outermost calls cost time: a nested call costs one test.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from neaptide.capture.recording.hooks import OPTIMIZER_HOOKS

# Training iterations used to learn which calls every iteration makes.
_LEARNING = 8
# An optimizer closes the iterations from now on if its steps since the last end of an iteration exceed twice its usual
# number + this.
_PATIENCE = 16

_Call = tuple[int, bool, bool]  # the module's identity, gradients on, training mode


class Listener(Protocol):
    """Receives the boundaries, on the program's own thread, between its launches."""

    def begin(self, serving: bool, trained: bool) -> None:
        """An iteration begins; `serving`: it is one call without gradients; `trained`: an optimizer has stepped."""

    def end_forward(self) -> None:
        """The program has launched the iteration's forward pass."""

    def end(self) -> None:
        """The program has launched the whole iteration."""

    def change(self) -> None:
        """Another optimizer closes the iterations from now on, the one that is about to end included."""


class Boundaries:
    """Watches the modules and optimizers of this process from `install` to `remove`.

    Only modules and optimizers on `device_type` count; without one, those on the device of the first that is used.
    """

    def __init__(self, listener: Listener, device_type: str | None = None) -> None:
        self.device: torch.device | None = None
        """The device of the first module or optimizer that counted."""
        self._listener = listener
        self._device_type = device_type
        self._inside = False  # an outermost call is running
        self._open = False  # an iteration is open
        self._serving = False  # the open iteration is a single call
        self._calls = 0  # outermost calls in the open iteration
        self._usual_calls = 1
        self._closing: int | None = None  # the optimizer that closes iterations
        self._steps: dict[int, int] = {}  # of each optimizer since an iteration was last closed
        self._most_steps: dict[int, int] = {}
        self._calls_seen: set[_Call] = set()
        self._calls_of_all: set[_Call] | None = None
        self._to_learn = _LEARNING
        self._original: Any = None  # the call of a module, while it is replaced

    def install(self) -> None:
        """Begin to watch."""
        # A global forward hook would cost every module of the process microseconds per call.
        original = self._original = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(module, *args, **kwargs)
            return self._call_outermost(original, module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        OPTIMIZER_HOOKS.add(self)

    def remove(self) -> None:
        """Stop watching."""
        if self._original is not None:
            OPTIMIZER_HOOKS.remove(self)
            nn.Module.__call__ = self._original  # type: ignore[method-assign]
            self._original = None

    def _counts(self, parameter: torch.Tensor | None) -> bool:
        """Whether a module or optimizer with this first parameter is on the watched device."""
        if parameter is None or parameter.device.type != (self._device_type or parameter.device.type):
            return False
        if self.device is None:
            self.device, self._device_type = parameter.device, parameter.device.type
        return True

    # --- calls

    def _call_outermost(self, original: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        # Checkpointing calls modules again inside the backward pass; a loss is a module without parameters.
        in_backward = torch._C._current_graph_task_id() != -1
        if in_backward or not self._counts(next(module.parameters(), None)):
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
            self._end()  # no optimizer has closed it
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

    def enter_optimizer(self, optimizer: Optimizer) -> None:
        pass

    def leave_optimizer(self, optimizer: Optimizer) -> None:
        if not self._counts(next(iter(optimizer.param_groups[0]["params"]), None)):
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
        if not called:  # the program calls no module: its next iteration begins here
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
