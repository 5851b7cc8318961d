"""How a planner meets a budget: by waiting for copies, by aiming lower until the plan fits, and by local search.

It imports `core`, `planning.plan`, `planning.costing` and `planning.analysis`. Planners and `neaptide.plan`
import it.
"""
