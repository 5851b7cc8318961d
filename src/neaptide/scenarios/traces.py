"""The traces that a scenario's jobs need: files are read, models estimated, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.reporting.terminal.progress import progress
from neaptide.scenarios.file import JobSpec, Scenario
from neaptide.scenarios.sources import ModelOptions, run_model
from neaptide.scenarios.trace_cache import TraceCache, TraceKey, read_trace


class Traces:
    """Traces by where they come from. All that a scenario needs are there once it is made."""

    def __init__(self, scenario: Scenario) -> None:
        self._directory = scenario.directory
        self._files: dict[Path, Trace] = {}
        self._models: dict[TraceKey, Trace] = {}
        cache = TraceCache(scenario.device)
        missing: dict[TraceKey, JobSpec] = {}
        for spec in scenario.jobs:  # whatever is wrong is said before anything that takes long
            self._check(spec)
            if spec.given.model is not None and (wanted := _wanted(spec)) not in self._models:
                kept = cache.get(wanted)
                if kept is None:
                    _check_model(spec)
                    missing.setdefault(wanted, spec)
                else:
                    self._models[wanted] = kept
        for wanted, spec in missing.items():
            with spec.place.blamed("model"):
                self._models[wanted] = estimate_model(wanted, scenario.device)
            cache.put(wanted, self._models[wanted])

    def _check(self, spec: JobSpec) -> None:
        given, place = spec.given, spec.place
        if (given.model is None) == (given.trace is None):
            raise ValueError(place.error("give a model or a trace, one of them", "model", "trace"))
        if given.batch is not None and given.batch < 1:
            raise ValueError(place.error(f"batch must be at least 1, not {given.batch}", "batch"))
        if given.trace is not None and (given.batch is not None or given.scale != "paper"):
            raise ValueError(place.error("batch and scale are said of a model, not of a trace", "batch", "scale"))
        for key, names in (("trace", (given.trace,)), ("plans", given.plans)):
            with place.blamed(key):
                for name in names:
                    if name is not None:
                        self._read(name)

    def _read(self, name: str) -> Trace:
        path = self._directory / name
        if path not in self._files:
            self._files[path] = read_trace(path)
        return self._files[path]

    def of(self, spec: JobSpec) -> Trace:
        """A job's trace."""
        return self._models[_wanted(spec)] if spec.given.trace is None else self._read(spec.given.trace)

    def alternatives(self, spec: JobSpec) -> tuple[Trace, ...]:
        """The same iteration under the job's other plans."""
        return tuple(self._read(plan) for plan in spec.given.plans)

    def foreign(self, device: DeviceSpec) -> list[str]:
        """What one should know of traces that were made for another device, a sentence each."""
        return [
            f"{path.name} is a trace of {trace.device}: its times are not those of {device.name}."
            for path, trace in self._files.items()
            if trace.device != device.name
        ]


def _wanted(spec: JobSpec) -> TraceKey:
    given = spec.given
    return TraceKey(str(given.model), given.batch, given.scale, given.inference)


def _check_model(spec: JobSpec) -> None:
    from neaptide import models  # brings torch

    with spec.place.blamed("model"):
        models.recipe(str(spec.given.model), spec.given.scale)


def estimate_model(wanted: TraceKey, device: DeviceSpec) -> Trace:
    """The trace of a model of the zoo, with its progress shown."""
    scale: Literal["paper", "tiny"] = "tiny" if wanted.scale == "tiny" else "paper"
    options = ModelOptions(batch=wanted.batch, scale=scale, inference=wanted.inference)
    batch = "" if wanted.batch is None else f", batch {wanted.batch}"
    with progress(f"estimating {wanted.model}{batch}") as on_progress:
        return run_model(wanted.model, options, device, on_progress)
