"""The traces of a scenario's jobs. Each file is read once and each model estimated once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from neaptide.capture.files import load_trace
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.reporting.terminal.progress import progress
from neaptide.scenarios.scenario_file import JobSpec, Scenario
from neaptide.scenarios.sources import ModelOptions, run_model
from neaptide.scenarios.trace_cache import TraceCache, TraceKey


class Traces:
    """All traces of a scenario, read or estimated when it is created."""

    def __init__(self, scenario: Scenario) -> None:
        self._directory = scenario.directory
        self._files: dict[Path, Trace] = {}
        self._models: dict[TraceKey, Trace] = {}
        cache = TraceCache(scenario.device)
        missing: dict[TraceKey, JobSpec] = {}
        for spec in scenario.jobs:  # report every mistake before an estimate, which takes long
            self._check(spec)
            if spec.given.model is not None and (key := _key(spec)) not in self._models:
                kept = cache.get(key)
                if kept is None:
                    _check_model(spec)
                    missing.setdefault(key, spec)
                else:
                    self._models[key] = kept
        for key, spec in missing.items():
            with spec.place.blamed("model"):
                self._models[key] = estimate_model(key, scenario.device)
            cache.put(key, self._models[key])

    def _check(self, spec: JobSpec) -> None:
        given, place = spec.given, spec.place
        if (given.model is None) == (given.trace is None):
            raise ValueError(place.error("give either a model or a trace", "model", "trace"))
        if given.batch is not None and given.batch < 1:
            raise ValueError(place.error(f"batch must be at least 1, not {given.batch}", "batch"))
        if given.trace is not None and (given.batch is not None or given.scale != "paper"):
            raise ValueError(place.error("batch and scale apply to a model, not to a trace", "batch", "scale"))
        for field, names in (("trace", (given.trace,)), ("plans", given.plans)):
            with place.blamed(field):
                for name in names:
                    if name is not None:
                        self._read(name)

    def _read(self, name: str) -> Trace:
        path = self._directory / name
        if path not in self._files:
            self._files[path] = load_trace(path)
        return self._files[path]

    def of(self, spec: JobSpec) -> Trace:
        """A job's trace."""
        return self._models[_key(spec)] if spec.given.trace is None else self._read(spec.given.trace)

    def alternatives(self, spec: JobSpec) -> tuple[Trace, ...]:
        """The traces of the same iteration under the job's other plans."""
        return tuple(self._read(plan) for plan in spec.given.plans)

    def foreign(self, device: DeviceSpec) -> list[str]:
        """A sentence about each trace that was made for another device."""
        return [
            f"{path.name} is a trace of {trace.device}: its times are not those of {device.name}."
            for path, trace in self._files.items()
            if trace.device != device.name
        ]


def _key(spec: JobSpec) -> TraceKey:
    given = spec.given
    return TraceKey(str(given.model), given.batch, given.scale, given.inference)


def _check_model(spec: JobSpec) -> None:
    from neaptide import models  # imports torch

    with spec.place.blamed("model"):
        models.recipe(str(spec.given.model), spec.given.scale)


def estimate_model(key: TraceKey, device: DeviceSpec) -> Trace:
    """Estimate a model of the zoo, and show progress."""
    scale: Literal["paper", "tiny"] = "tiny" if key.scale == "tiny" else "paper"
    options = ModelOptions(batch=key.batch, scale=scale, inference=key.inference)
    batch = "" if key.batch is None else f", batch {key.batch}"
    with progress(f"estimating {key.model}{batch}") as on_progress:
        return run_model(key.model, options, device, on_progress)
