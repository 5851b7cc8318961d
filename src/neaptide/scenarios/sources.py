"""Traces of models and scripts, and devices by name or file. Functions import torch only when they need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from neaptide.core.device import DeviceSpec, find_device, parse_device
from neaptide.core.traces.trace import Trace
from neaptide.reporting.terminal.progress import OnProgress, progress, script_progress

if TYPE_CHECKING:
    from neaptide.capture.script import ScriptRun

DEFAULT_DEVICE = "V100-16GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options that apply to models only; each is unset unless the user set it."""

    batch: int | None = None
    device: str | None = None
    scale: Literal["paper", "tiny"] | None = None
    inference: bool = False
    measure: bool = False

    def refuse(self, why: str) -> None:
        """Raise ValueError if any option is set; `why` says why options do not apply."""
        names = [f"--{name}" for name in self.__dataclass_fields__ if getattr(self, name) not in (None, False)]
        if names:
            raise ValueError(f"{' and '.join(names)} can only be given for a model; {why}")


def zoo_names() -> str:
    """The names of all models of the zoo."""
    from neaptide.models import names

    return ", ".join(names())


def device_of(text: str, directory: Path = Path()) -> DeviceSpec:
    """A device of the catalogue by name, or the device that a TOML file in the directory describes."""
    if "/" not in text and not text.endswith(".toml"):
        return find_device(text)
    path = directory / text
    try:
        return parse_device(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def model_trace(name: str, options: ModelOptions) -> tuple[Trace, DeviceSpec | None]:
    """The trace of a model of the zoo, and the device if the trace was estimated."""
    if options.measure and options.device:
        raise ValueError("--measure runs a model on this machine, --device estimates it for another: choose one")
    device = None if options.measure else device_of(options.device or DEFAULT_DEVICE)
    doing = "measuring" if options.measure else "estimating"
    with progress(f"{doing} {name}") as on_progress:
        return run_model(name, options, device, on_progress), device


def run_model(name: str, options: ModelOptions, device: DeviceSpec | None, on_progress: OnProgress) -> Trace:
    """Estimate a model of the zoo for a device, or measure it on this machine if `device` is None."""
    from neaptide import models
    from neaptide.capture.estimated import estimate
    from neaptide.capture.measured import measure
    from neaptide.devices.local import pick_device

    scale = options.scale or "paper"
    batch = models.recipe(name, scale).batch if options.batch is None else options.batch
    title = name if scale == "paper" else f"{name}-{scale}"

    def build(device: str = "cpu") -> Callable[[], object]:
        workload = models.build(name, batch, scale, device)
        return workload.infer if options.inference else workload.step

    if device is not None:
        return estimate(build, device, name=title, batch=batch, on_progress=on_progress)
    try:
        here = str(pick_device())
        return measure(build(here), device=here, name=title, batch=batch, on_progress=on_progress)
    except (MemoryError, RuntimeError) as error:
        # A device's error names the bytes needed and available; an error of the host only says that it failed.
        if "out of memory" in str(error):
            raise ValueError(f"cannot run {title} at batch {batch} here: {error}") from None
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise ValueError(f"this machine has too little memory to run {title} at batch {batch}") from None
        raise


def run_script(path: Path, arguments: Sequence[str]) -> ScriptRun:
    """Run a script and profile its iterations."""
    from neaptide.capture.script import profile_script
    from neaptide.devices.local import found_by_programs

    with script_progress(path.name) as on_progress, found_by_programs():
        return profile_script(path, arguments, on_progress=on_progress)
