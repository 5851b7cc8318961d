"""Run more PyTorch jobs on one GPU than fit.

The names below are public, as are `neaptide.policy` (for authors of policies), `neaptide.plan` (for authors of
planners) and `neaptide.models`. All else may change. docs/api.md shows each with an example.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from neaptide import models, plan, policy
    from neaptide.api import run_jobs, simulate
    from neaptide.capture.estimated import estimate
    from neaptide.capture.files import load_trace, save_trace
    from neaptide.capture.measured import measure
    from neaptide.core.control.job import Job
    from neaptide.core.device import find_device
    from neaptide.core.units import parse_bytes
    from neaptide.fitting.run import fit
    from neaptide.live.job.attach import attach, request
    from neaptide.live.job.serving.requests import serving
    from neaptide.live.runs.launching import JobCommand
    from neaptide.simulation import Submission

__all__ = [
    "Job",
    "JobCommand",
    "Submission",
    "__version__",
    "attach",
    "estimate",
    "find_device",
    "fit",
    "load_trace",
    "measure",
    "models",
    "parse_bytes",
    "plan",
    "policy",
    "request",
    "run_jobs",
    "save_trace",
    "serving",
    "simulate",
]

_HOMES = {
    "Job": "neaptide.core.control.job",
    "JobCommand": "neaptide.live.runs.launching",
    "Submission": "neaptide.simulation",
    "attach": "neaptide.live.job.attach",
    "estimate": "neaptide.capture.estimated",
    "find_device": "neaptide.core.device",
    "fit": "neaptide.fitting.run",
    "load_trace": "neaptide.capture.files",
    "measure": "neaptide.capture.measured",
    "parse_bytes": "neaptide.core.units",
    "request": "neaptide.live.job.attach",
    "run_jobs": "neaptide.api",
    "save_trace": "neaptide.capture.files",
    "serving": "neaptide.live.job.serving.requests",
    "simulate": "neaptide.api",
}
_MODULES = ("models", "plan", "policy")


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import neaptide` loads no torch."""
    if name in _MODULES:
        return import_module(f"neaptide.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
