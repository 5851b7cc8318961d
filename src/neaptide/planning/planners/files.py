"""A planner by its name, or by the path of a Python file that a user wrote."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.plan import Plan, Planner
from neaptide.planning.planners import PLANNERS
from neaptide.user_files import run_user_file


def find_planner(name_or_path: str) -> Planner:
    """A planner of the registry, or the one in a file whose name ends in .py; ValueError with one line if none."""
    if name_or_path.endswith(".py"):
        return load_planner(Path(name_or_path))
    return PLANNERS.make(name_or_path)


def load_planner(path: Path) -> Planner:
    """The function `plan` of a Python file, which checks that its result is a plan. Runs the file."""
    module = run_user_file(path, "planner")
    function = vars(module).get("plan")
    if not callable(function):
        own = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"{path}: a planner file defines a function plan(trace, budget_bytes, device), this one defines "
            + (", ".join(own) or "no function")
        )
    signature = inspect.signature(function)
    try:
        signature.bind("trace", "budget_bytes", "device")
    except TypeError:
        raise ValueError(
            f"{path}: a planner is called as plan(trace, budget_bytes, device), this one is plan{signature}"
        ) from None
    return _checked(function, path)


def _checked(function: Callable[..., object], path: Path) -> Planner:
    def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
        made = function(trace, budget_bytes, device)
        if not isinstance(made, Plan):
            raise ValueError(f"{path}: plan returned {type(made).__name__}, not a Plan")
        return made

    return plan
