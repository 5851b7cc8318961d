"""The profiler, `fit` and a live job find the same iterations in a program."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn

import neaptide
from neaptide.capture.boundaries import Boundaries
from neaptide.capture.recording.accumulation import undo_copies
from neaptide.capture.recording.hooks import watching
from neaptide.capture.recording.recorder import Recorder
from neaptide.capture.script import profile_script
from neaptide.core.traces.trace import Trace
from neaptide.fitting.run import Run
from training_programs import DEVICE, PROGRAMS

# Matrix products per iteration. A model has two forward, and three backward if only its parameters have gradients.
PRODUCTS = {
    "plain": 5,
    "accumulating": 15,
    "gan": 21,
    "teacher": 7,
    "evaluating": 5,
    "closure": 5,
    "without_calls": 2,
    "changing_optimizers": 5,
}


class LiveListener:
    """Cuts the recorder's log where a live job's iterations begin."""

    def __init__(self) -> None:
        self.recorder = Recorder(torch.device(DEVICE))
        self.begins: list[tuple[int, bool]] = []  # the recorder's clock, serving

    def begin(self, serving: bool, trained: bool) -> None:
        if trained:
            self.begins.append((self.recorder.clock, serving))

    def end_forward(self) -> None: ...

    def end(self) -> None: ...

    def change(self) -> None:
        self.begins.clear()

    def last_iteration(self) -> Counter[str]:
        kernels = undo_copies(self.recorder.log).kernels
        (start, serving), (end, _) = self.begins[-2:]
        assert not serving
        return Counter(kernel.name for kernel in kernels[start:end])


def ops_of(trace: Trace | None) -> Counter[str]:
    assert trace is not None
    return Counter(trace.ops.name)


def live_ops(name: str) -> Counter[str]:
    listener = LiveListener()
    boundaries = Boundaries(listener, DEVICE)
    boundaries.install()
    try:
        with listener.recorder, watching(listener.recorder):
            PROGRAMS[name](lambda _: nullcontext())
    finally:
        boundaries.remove()
    return listener.last_iteration()


def profiled_ops(name: str, folder: Path) -> Counter[str]:
    script = folder / "script.py"
    script.write_text(
        "from contextlib import nullcontext\n"
        "from training_programs import PROGRAMS\n"
        f"PROGRAMS[{name!r}](lambda _: nullcontext())\n"
    )
    run = profile_script(script)
    assert run.error is None
    assert run.complete
    return ops_of(run.trace)


def fitted_run(name: str) -> Run:
    runs: list[Run] = []

    def around(model: nn.Module) -> Run:
        runs.append(neaptide.fit(model, "1GiB", planner="liveness"))
        return runs[0]

    PROGRAMS[name](around)
    return runs[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_profiler_fit_and_a_live_job_find_the_same_iterations(name: str, tmp_path: Path) -> None:
    live, profiled, run = live_ops(name), profiled_ops(name, tmp_path), fitted_run(name)
    products = live["aten::addmm"] + live["aten::mm"]
    assert products == PRODUCTS[name]
    assert profiled == live
    assert ops_of(run.trace) == live
    assert run.replans == 0
