"""Checkmate's optimal recomputation: the problem, its integer program, its solver, and coarse graphs of traces.

It imports `core`, `planning.plan`, `planning.costing` and `planning.analysis`. The planner `planners.checkmate` and the
reproduction of the paper import it.
"""
