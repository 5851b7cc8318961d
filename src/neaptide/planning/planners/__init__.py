"""The planners, one file each: the papers' and our own.

They import every other room of `planning` but the executor. A new planner is a file here and a line of `PLANNERS`.
`fitting`, the reproductions and the command line find planners by name in `PLANNERS`, or by the path of a user's file
with `files.find_planner`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

from neaptide.core.registry import Registry
from neaptide.planning.plan import Planner


def _load(file: str, function: str = "plan") -> Planner:
    planner: Planner = getattr(import_module(f"neaptide.planning.planners.{file}"), function)
    return planner


# A planner's file is loaded when the planner is asked for, so that no command loads a solver that it does not use.
PLANNERS: Registry[Planner] = Registry(
    "planner",
    {
        "liveness": partial(_load, "liveness"),
        "vdnn-conv": partial(_load, "vdnn", "plan_conv"),
        "vdnn-all": partial(_load, "vdnn", "plan_all"),
        "vdnn": partial(_load, "vdnn"),
        "superneurons": partial(_load, "superneurons"),
        "swapadvisor": partial(_load, "swapadvisor"),
        "swapadvisor-in-order": partial(_load, "swapadvisor", "plan_in_order"),
        "capuchin": partial(_load, "capuchin"),
        "checkmate": partial(_load, "checkmate"),
        "checkmate-rounded": partial(_load, "checkmate", "plan_rounded"),
        "gist": partial(_load, "gist"),
        "gist-lossy": partial(_load, "gist", "plan_lossy"),
        "echo": partial(_load, "echo"),
        "dtr": partial(_load, "dtr"),
        "best": partial(_load, "best"),
    },
)

# `neaptide plan` runs these only when they are named: one changes gradients, the other is the first step of checkmate.
ONLY_BY_NAME = frozenset({"gist-lossy", "checkmate-rounded"})

__all__ = ["ONLY_BY_NAME", "PLANNERS"]
