"""What the author of a planner needs: plans, traces, what a plan costs, and helpers to find one.

A planner is a function `plan(trace, budget_bytes, device) -> Plan`. docs/writing-a-planner.md shows one.
"""

from neaptide.core.device import DeviceSpec, find_device
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace, Uses
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.candidates import Candidates, candidates
from neaptide.planning.analysis.idle_spans import IdleSpans, idle_spans
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.apply import Summary, apply, summary_of
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.frontier import Point, frontier
from neaptide.planning.plan import CODECS, CannotFitError, Codec, Gap, Plan, Planner, Return, in_order
from neaptide.planning.planners import PLANNERS
from neaptide.planning.planners.files import find_planner
from neaptide.planning.search.within_budget import plan_within_budget

__all__ = [
    "CODECS",
    "PLANNERS",
    "Candidates",
    "CannotFitError",
    "CannotRecomputeError",
    "Codec",
    "DeviceSpec",
    "Gap",
    "IdleSpans",
    "Kind",
    "Ops",
    "Phase",
    "Plan",
    "Planner",
    "Point",
    "RecomputeChains",
    "Return",
    "Schedule",
    "Scheduler",
    "Summary",
    "Tensors",
    "Trace",
    "Uses",
    "apply",
    "candidates",
    "find_device",
    "find_planner",
    "frontier",
    "idle_spans",
    "in_order",
    "lower_bound",
    "plan_within_budget",
    "summary_of",
]
