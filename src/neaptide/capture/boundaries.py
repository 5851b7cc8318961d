"""Finds where the iterations of a running program begin and end. The profiler, `fit` and live jobs all use this rule.

- A training iteration begins with a call of an outermost module and ends with an optimizer's step. Of several
  optimizers, the one whose first step came last closes the iteration. So gradient accumulation, several models and
  several optimizers make one iteration. What the program does between a step and the next call (reading the loss,
  clearing gradients, copying the next batch) belongs to the iteration before.
- If the closing optimizer stops stepping while another one goes on, the other one closes the iterations from then on.
- During training, a call with gradients off and the module in evaluation mode is an evaluation: each such call is an
  iteration of its own, so that other jobs wait for one call and not for a whole evaluation. A call that every training
  iteration makes in this way (a teacher's) is part of the training iteration.
- Before any optimizer has stepped, every call begins an iteration. A call without gradients (serving) also ends it; so
  does any call of a program that is known to serve, and may have left gradients on.
- A program that calls no module has one iteration from step to step.
- Each thread has iterations of its own, closed by the optimizers that step in it. In a thread where no optimizer steps,
  a call with gradients belongs to the iterations of the threads in which optimizers step.

Only outermost calls cost time: a nested call costs one test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import chain
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
    """Receives the boundaries, on the program's own threads, between their launches."""

    def begin(self, serving: bool, trained: bool) -> None:
        """An iteration begins; `serving`: it is one call without gradients; `trained`: an optimizer has stepped."""

    def end_forward(self) -> None:
        """The program has launched the iteration's forward pass."""

    def end(self) -> None:
        """The program has launched the whole iteration."""

    def change(self) -> None:
        """Another optimizer closes the iterations from now on, the one that is about to end included."""


class _Thread(threading.local):
    """What one thread of the program does, and what was learnt of it."""

    inside = False  # an outermost call is running

    def __init__(self) -> None:
        self.open = False  # an iteration is open
        self.serving = False  # the open iteration is a single call
        self.calls = 0  # outermost calls in the open iteration
        self.usual_calls = 1
        self.closing: int | None = None  # the optimizer that closes iterations
        self.steps: dict[int, int] = {}  # of each optimizer since an iteration was last closed
        self.most_steps: dict[int, int] = {}
        self.calls_seen: set[_Call] = set()
        self.calls_of_all: set[_Call] | None = None
        self.to_learn = _LEARNING


class Boundaries:
    """Watches the modules and optimizers of this process from `install` to `remove`.

    Only modules and optimizers on `device_type` count; without one, those on the device of the first that is used.
    `elsewhere` is told of the others: the type of their device, and whether it was an optimizer.
    """

    def __init__(
        self,
        listener: Listener,
        device_type: str | None = None,
        elsewhere: Callable[[str, bool], None] | None = None,
    ) -> None:
        self.device: torch.device | None = None
        """The device of the first module or optimizer that counted."""
        self.serves = False
        """Whether the program is known to serve; whoever knows sets it."""
        self._listener = listener
        self._device_type = device_type
        self._elsewhere = elsewhere
        self._thread = _Thread()
        self._stepped: set[int] = set()  # optimizers, in any thread
        self._original: Any = None  # the call of a module, while it is replaced

    def install(self) -> None:
        """Begin to watch."""
        # A global forward hook would cost every module of the process microseconds per call.
        original = self._original = nn.Module.__call__
        thread = self._thread

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if thread.inside:
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

    def _counts(self, parameters: Iterable[torch.Tensor], *, steps: bool = False) -> bool:
        """Whether a module or optimizer with these parameters is, at least in part, on the watched device."""
        elsewhere = None
        for parameter in parameters:
            device = parameter.device
            if self._device_type is None or device.type == self._device_type:
                if self.device is None:
                    self.device, self._device_type = device, device.type
                return True
            elsewhere = elsewhere or device.type
        if elsewhere is not None and self._elsewhere is not None:
            self._elsewhere(elsewhere, steps)
        return False

    # --- calls

    def _call_outermost(self, original: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        # Checkpointing calls modules again inside the backward pass; a loss is a module without parameters.
        in_backward = torch._C._current_graph_task_id() != -1
        if in_backward or not self._counts(module.parameters()):
            return original(module, *args, **kwargs)
        self._enter(module)
        thread = self._thread
        thread.inside = True
        try:
            return original(module, *args, **kwargs)
        finally:
            thread.inside = False
            self._leave()

    def _enter(self, module: nn.Module) -> None:
        thread, gradients = self._thread, torch.is_grad_enabled()
        call = (id(module), gradients, module.training)
        if thread.to_learn:
            thread.calls_seen.add(call)
        if not self._stepped:
            self._end()  # no optimizer has closed it
            self._begin(serving=self.serves or not gradients)
        elif thread.closing is None and not gradients:
            self._end()
            self._begin(serving=True)
        elif not thread.open:
            expected = thread.calls_of_all is not None and call in thread.calls_of_all
            self._begin(serving=not gradients and not module.training and not expected)
        thread.calls += 1

    def _leave(self) -> None:
        thread = self._thread
        if thread.serving:
            self._end()
        elif thread.open and thread.calls == thread.usual_calls:
            self._listener.end_forward()

    # --- optimizers

    def enter_optimizer(self, optimizer: Optimizer) -> None:
        pass

    def leave_optimizer(self, optimizer: Optimizer) -> None:
        if not self._counts(chain.from_iterable(group["params"] for group in optimizer.param_groups), steps=True):
            return
        thread, name = self._thread, id(optimizer)
        steps = thread.steps[name] = thread.steps.get(name, 0) + 1
        changed = name not in thread.most_steps or steps > 2 * thread.most_steps[name] + _PATIENCE
        if changed:
            thread.most_steps[name] = steps
            thread.closing = name
            thread.calls_seen.clear()
            thread.calls_of_all, thread.to_learn = None, _LEARNING
        elif name == thread.closing and thread.to_learn:
            seen = thread.calls_seen
            thread.calls_of_all = set(seen) if thread.calls_of_all is None else thread.calls_of_all & seen
            thread.calls_seen.clear()
            thread.to_learn -= 1
        if changed and (name not in self._stepped or steps > 1):  # in another thread it may be known
            self._stepped.add(name)
            self._listener.change()
        if name == thread.closing:
            self._close()

    def _close(self) -> None:
        thread = self._thread
        for name, steps in thread.steps.items():
            thread.most_steps[name] = max(steps, thread.most_steps[name])
        thread.steps.clear()
        called = thread.calls > 0
        if called:
            thread.usual_calls = thread.calls
        self._end()
        if not called:  # the program calls no module: its next iteration begins here
            self._begin(serving=False)

    # --- both

    def _begin(self, serving: bool) -> None:
        thread = self._thread
        thread.open, thread.serving, thread.calls = True, serving, 0
        self._listener.begin(serving, bool(self._stepped))

    def _end(self) -> None:
        thread = self._thread
        if thread.open:
            thread.open = thread.serving = False
            thread.calls = 0
            self._listener.end()
