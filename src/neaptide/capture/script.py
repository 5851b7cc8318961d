"""The trace of any training or inference script, unchanged: iterations are found by optimizer and module hooks."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neaptide.capture.recording.cutting import Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.session import CaptureError, Session
from neaptide.core.traces.trace import Trace

# A script without an optimizer step is taken for a serving one after so many calls of its model.
_SERVING_CALLS = 100


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """What came of profiling a script."""

    trace: Trace | None  # None when no iteration was seen
    error: BaseException | None  # what the script raised, its traceback included
    complete: bool  # all iterations that the capture wanted were seen


class _Enough(BaseException):
    """Ends the script once the capture has all it needs; not an Exception, so that scripts do not catch it."""


class _Driver:
    """Calls a session between the iterations of a script.

    An iteration ends with an optimizer's step. Of several optimizers, the one that was the last to make its first step
    closes it, so that each iteration has a step of every one. As long as none has stepped, every call of the outermost
    module is an iteration of its own.
    """

    def __init__(self, on_progress: Callable[[int, int], None] | None) -> None:
        self.device = torch.device("cpu")  # until a model is seen elsewhere
        self._on_progress = on_progress
        self._stepped: list[int] = []
        self._depth = 0
        self._calls = 0
        self._finished = False
        self.session = self._new_session()
        self._before: Session | None = None  # what was seen before the newest optimizer's first step

    def _new_session(self) -> Session:
        return Session(self.device, cut_at_low_point=True, on_progress=self._on_progress)

    @property
    def complete(self) -> bool:
        return self._finished

    def trace(self, where: Where) -> Trace | None:
        """What the sessions saw: of a script that steps once, the iteration up to that step."""
        for session in (self.session, self._before):
            with suppress(CaptureError):
                if session is not None:
                    return session.trace(where)
        return None

    def enter_module(self, module: nn.Module, args: Any) -> None:
        # A loss is a module too; it has no parameters.
        parameter = next(module.parameters(), None) if self._depth == 0 and not self._stepped else None
        if parameter is not None:
            if self._calls == 0 and parameter.device.type != self.device.type:
                self.device = parameter.device
                self.session = self._new_session()
            self._calls += 1
            if not self._finished:
                self._finished = not self.session.advance()
            elif self._calls > _SERVING_CALLS:
                raise _Enough
        self._depth += 1
        self.session.recorder.enter_module(module, args)

    def leave_module(self) -> None:
        self._depth -= 1
        self.session.recorder.leave_module()

    def enter_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.session.recorder.enter_optimizer(optimizer)

    def leave_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.session.recorder.leave_optimizer(optimizer)
        if id(optimizer) not in self._stepped:
            self._stepped.append(id(optimizer))
            self.session.close()
            self._before, self.session, self._finished = self.session, self._new_session(), False
        if id(optimizer) == self._stepped[-1]:
            self._finished = not self.session.advance()
            if self._finished:
                raise _Enough


def profile_script(
    path: Path,
    arguments: Sequence[str] = (),
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ScriptRun:
    """Run a script as `python path arguments...` does, until enough of its iterations were seen.

    The script is not changed and notices nothing but the time. What is watched is the device of its model. A script
    that ends early, or raises, still gives the trace of what was seen.
    """
    driver = _Driver(on_progress)
    error = _run(path, arguments, driver)
    where = Where(
        name=path.stem,
        device=str(driver.device),
        sms=torch.get_num_threads(),
        batch=0,
        estimated=False,
        asynchronous=driver.device.type != "cpu",
    )
    return ScriptRun(driver.trace(where), error, driver.complete)


def _run(path: Path, arguments: Sequence[str], driver: _Driver) -> BaseException | None:
    saved_argv, saved_path = sys.argv, sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with watching(driver):
            runpy.run_path(str(path), run_name="__main__")
    except _Enough:
        pass
    except SystemExit as leaving:
        return leaving if leaving.code not in (None, 0) else None
    except BaseException as raised:  # whatever the script raises is the script's own affair
        return raised
    finally:
        driver.session.close()
        sys.argv, sys.path[:] = saved_argv, saved_path
    return None
