"""One run of a model under a budget: profile iterations, make a plan, then carry it out."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

import torch
from torch import nn

from neaptide.capture.boundaries import Boundaries
from neaptide.capture.recording.cutting import Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.session import Session
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes, parse_bytes
from neaptide.fitting.choosing import Chosen, choose
from neaptide.fitting.gauge import Gauge
from neaptide.fitting.link import spec_of
from neaptide.fitting.relief import Relief, Relieved
from neaptide.fitting.report import described
from neaptide.fitting.tape import Tape, persistent_tensors
from neaptide.planning.executor.run.runner import Runner
from neaptide.planning.executor.run.tensor_cache import TensorCache
from neaptide.planning.plan import Plan, Planner

TENSOR_CACHE = "tensor-cache"
# Evaluations that may interrupt profiling; it goes on through later ones.
_RESTARTS = 3


def fit(
    model: nn.Module,
    budget: str | int,
    *,
    planner: str | Planner = "best",
    device: DeviceSpec | None = None,
    timed: int = 2,
) -> Run:
    """Train `model` in `budget` bytes of device memory: use it as a context around the training loop.

    The first iterations are profiled; meanwhile the tensors that autograd saves wait in host memory. Then a planner
    makes a plan, and later iterations keep to it. capture/boundaries says where an iteration begins. Without `device`,
    the link between the device and the host is measured.

    With `planner="tensor-cache"` nothing is profiled or planned: saved tensors stay on the device while there is room.
    """
    return Run(model, parse_bytes(budget) if isinstance(budget, str) else budget, planner, device, timed)


class Run:
    """The context that `fit` gives. Figures are None until there is something to measure."""

    def __init__(
        self, model: nn.Module, budget_bytes: int, planner: str | Planner, spec: DeviceSpec | None, timed: int
    ) -> None:
        parameter = next(model.parameters(), None)
        if parameter is None:
            raise ValueError("the model has no parameters, so there is nothing to train")
        if parameter.device.type in ("cpu", "meta"):
            raise ValueError(f"the model is on {parameter.device}: move it to a device with a memory of its own")
        if budget_bytes <= 0:
            raise ValueError(f"the budget must be positive, not {budget_bytes}")
        self.model, self.budget_bytes = model, budget_bytes
        self.device = parameter.device
        self.replans = 0
        self.profiled_peak_bytes: int | None = None  # of the profiled iterations
        self.chosen: Chosen | None = None
        self._planner, self._spec, self._timed = planner, spec, timed
        self._gauge = Gauge(self.device)
        self._session: Session | None = None
        self._relieved: Relieved | None = None  # while iterations are timed
        self._runner: Runner | None = None  # while a plan is carried out
        self._begun = 0  # iterations since profiling started
        self.cache: TensorCache | None = None  # only for `tensor-cache`
        self._outdated = False  # the profiled iterations were parts of one
        self._restarts = 0
        self._stack = ExitStack()  # for the whole run
        self._phase = ExitStack()  # for profiling, or for a plan

    # The context

    def __enter__(self) -> Self:
        handle = self.model.register_forward_pre_hook(lambda *_: self._forget_abandoned())
        self._stack.callback(handle.remove)
        boundaries = Boundaries(self, self.device.type)
        boundaries.install()
        self._stack.callback(boundaries.remove)
        if self._planner == TENSOR_CACHE:
            persistent = persistent_tensors(self.model).values()
            self.cache = self._phase.enter_context(TensorCache(self.device, self.budget_bytes, persistent))
            self._gauge.mark(measured=False)
        else:
            self._start_profiling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.close()
        elif self.cache is not None and kind is None:
            self._gauge.mark(measured=not self.cache.learning, seen_bytes=self.cache.begin())
        elif kind is None:
            self._gauge.mark(measured=self._runner is not None)
        self._phase.close()
        self._stack.close()

    # What it found

    @property
    def trace(self) -> Trace | None:
        """The profiled iteration, without a plan."""
        return None if self.chosen is None else self.chosen.trace

    @property
    def plan(self) -> Plan | None:
        """The plan as it is carried out."""
        return None if self.chosen is None else self.chosen.program.plan

    @property
    def predicted_peak_bytes(self) -> int | None:
        return None if self.chosen is None else self.chosen.peak_bytes

    @property
    def predicted_seconds(self) -> float | None:
        """The predicted time of an iteration under the plan."""
        return None if self.chosen is None else self.chosen.seconds

    @property
    def measured_peak_bytes(self) -> int | None:
        return self._gauge.peak_bytes

    @property
    def measured_seconds(self) -> float | None:
        """The time of the median iteration under the plan."""
        return self._gauge.seconds

    def summary(self) -> str:
        """Print and return the predicted and measured peak and time, and what the plan does to which tensors."""
        text = described(self)
        print(text)
        return text

    # Iterations

    def begin(self, serving: bool, trained: bool) -> None:
        if self.cache is not None:
            if not serving and (trained or self.cache.asked):
                self._begin_cached(self.cache)
            return
        if self._outdated:
            self._start_profiling()
        if self._session is not None:
            self._begin_profiled(serving, trained)
        elif not serving:
            self._begin_planned()

    def end_forward(self) -> None:
        pass

    def end(self) -> None:
        pass

    def change(self) -> None:
        self._outdated = self._session is not None and self._begun > 1

    def _begin_cached(self, cache: TensorCache) -> None:
        learning = cache.learning
        peak = self._gauge.mark(measured=not learning, seen_bytes=cache.begin())
        if not learning:
            return
        # Everything left as soon as it could, so no budget below this peak can be kept.
        self.profiled_peak_bytes = max(peak, self.profiled_peak_bytes or 0)
        if peak > self.budget_bytes:
            raise ValueError(
                f"with every saved tensor in host memory an iteration still needs {format_bytes(peak)}, more than "
                f"the budget of {format_bytes(self.budget_bytes)}: raise the budget"
            )

    def _start_profiling(self) -> None:
        self._phase.close()
        if self._session is not None:
            self._session.close()
        self._runner = self._relieved = None
        self._relief = Relief(self.device)
        tape = partial(Tape, self._relief)
        self._session = Session(self.device, timed=self._timed, recorder=tape, aside=self._relief.aside)
        self._phase.enter_context(watching(self._session.recorder))
        self._gauge.mark(measured=False)
        self._begun, self._outdated = 0, False

    def _begin_profiled(self, serving: bool, trained: bool) -> None:
        session = self._session
        assert session is not None
        assert isinstance(session.recorder, Tape)
        if serving:
            if trained and session.recording and self._restarts < _RESTARTS:  # an evaluation between two iterations
                self._restarts += 1
                self._start_profiling()
            return
        asked = session.recorder.asked or (self._relieved is not None and self._relieved.asked)
        if self._begun and not asked and not trained:
            return  # calls before the first backward pass belong to one iteration
        self._begun += 1
        if not session.advance():
            self._start_running(session)
            return
        if session.recording:
            session.recorder.begin(self.model)
            return
        if self._relieved is None:
            self._relieved = self._phase.enter_context(
                Relieved(self.device, self._relief, persistent_tensors(self.model).values())
            )
        self._relieved.begin()

    def _begin_planned(self) -> None:
        runner = self._runner
        assert runner is not None
        self._forget_abandoned()
        if not runner.asked:
            return
        strange = runner.begin()
        self._gauge.mark(measured=not strange)
        if strange:
            self.replans += 1
            self._restarts = 0
            self._start_profiling()
            self._begin_profiled(serving=False, trained=True)

    def _forget_abandoned(self) -> None:
        """Forget a forward pass whose graph was dropped before any backward pass: it belongs to no iteration."""
        runner = self._runner
        if runner is not None and not runner.asked and runner.abandoned:
            runner.begin()

    def _start_running(self, session: Session) -> None:
        assert isinstance(session.recorder, Tape)
        self._phase.close()
        self._session = None
        captured = session.captured(
            Where(
                name=type(self.model).__name__,
                device=str(self.device),
                sms=torch.get_num_threads(),
                batch=0,
                estimated=False,
                asynchronous=True,
            )
        )
        recording = session.recorder.recording(captured)
        spec = self._spec or spec_of(self.device)
        self.chosen = choose(captured.trace, recording, self.budget_bytes, self._planner, spec, self._gauge.allocated())
        program = self.chosen.program
        self._runner = self._phase.enter_context(Runner(program, self.device, persistent_tensors(self.model)))
        self._runner.begin()
        self.profiled_peak_bytes = self._gauge.mark(measured=False)
