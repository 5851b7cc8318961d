"""The trace of an unchanged training or inference script."""

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

from neaptide.capture.boundaries import Boundaries
from neaptide.capture.recording.cutting import Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.session import CaptureError, Session
from neaptide.core.traces.trace import Trace
from neaptide.devices.local import local_device

# A script without an optimizer step counts as a serving script after this many calls of its model.
_SERVING_CALLS = 100
# Evaluations that may interrupt a capture; the capture goes on through later ones.
_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """The outcome of profiling a script."""

    trace: Trace | None  # None when the script made no iteration
    error: BaseException | None  # what the script raised, its traceback included
    complete: bool  # the script made all iterations that the capture wanted


class _Enough(BaseException):
    """Ends the script once the capture has all it needs; not an Exception, so that scripts do not catch it."""


class _Driver:
    """Calls a session between the iterations of a script."""

    def __init__(self, on_progress: Callable[[int, int], None] | None) -> None:
        self.boundaries = Boundaries(self)
        self.complete = False
        self._on_progress = on_progress
        self._session: Session | None = None  # None between captures
        self._before: Session | None = None  # the last one that ended early
        self._trained = self._serving = False
        self._calls = 0
        self._restarts = 0

    @property
    def device(self) -> torch.device:
        return self.boundaries.device or torch.device("cpu")

    def trace(self, where: Where) -> Trace | None:
        """The trace of the last capture that saw an iteration; of a script that steps once, up to that step."""
        for session in (self._session, self._before):
            with suppress(CaptureError):
                if session is not None:
                    return session.trace(where)
        return None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    # Boundaries

    def begin(self, serving: bool, trained: bool) -> None:
        self._serving = serving
        if not trained:
            self._calls += 1
            if not self.complete:
                self._advance()
            elif self._calls > _SERVING_CALLS:
                raise _Enough
        elif not serving and self._session is None:
            self._advance()
        elif serving and self._session is not None and self._restarts < _RESTARTS:
            self._restarts += 1
            self.close()
            self._before = self._session if self._session.settled else self._before
            self._session = None

    def end_forward(self) -> None:
        pass

    def end(self) -> None:
        if self._trained and not self._serving:
            self._advance()
            if self.complete:
                raise _Enough

    def change(self) -> None:
        self.close()
        self._before, self._session, self.complete = self._session, None, False
        self._trained = True

    def _advance(self) -> None:
        if self._session is None:
            self._session = Session(self.device, cut_at_low_point=True, on_progress=self._on_progress)
        self.complete = not self._session.advance()

    # Modules and optimizers, for the recorder

    def enter_module(self, module: nn.Module, args: Any) -> None:
        if self._session is not None:
            self._session.recorder.enter_module(module, args)

    def leave_module(self) -> None:
        if self._session is not None:
            self._session.recorder.leave_module()

    def enter_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._session is not None:
            self._session.recorder.enter_optimizer(optimizer)

    def leave_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._session is not None:
            self._session.recorder.leave_optimizer(optimizer)


def profile_script(
    path: Path,
    arguments: Sequence[str] = (),
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ScriptRun:
    """Run a script as `python path arguments...` does, until the capture has seen enough of its iterations.

    The script is not changed; it only runs slower. The capture watches the device of the first model that the script
    calls. A script that ends early, or raises, still gives the trace of the iterations it made.
    """
    driver = _Driver(on_progress)
    error = _run(path, arguments, driver)
    local = local_device(driver.device)
    where = Where(
        name=path.stem,
        device=str(driver.device) if local is None else local.spec_name,
        sms=torch.get_num_threads() if local is None else local.sms,
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
        with watching(driver):  # before the boundaries: the recorder has left the optimizer when an iteration ends
            driver.boundaries.install()
            runpy.run_path(str(path), run_name="__main__")
    except _Enough:
        pass
    except SystemExit as leaving:
        return leaving if leaving.code not in (None, 0) else None
    except BaseException as raised:  # the caller shows whatever the script raises
        return raised
    finally:
        driver.boundaries.remove()
        driver.close()
        sys.argv, sys.path[:] = saved_argv, saved_path
    return None
