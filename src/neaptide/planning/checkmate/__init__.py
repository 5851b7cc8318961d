"""Checkmate's optimal recomputation: the problem, its integer program, its solver, and traces made small enough for it.

The planner `planners.checkmate` and the reproduction of the paper import it.
"""
