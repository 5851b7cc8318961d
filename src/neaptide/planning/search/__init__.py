"""How a planner meets a budget: aiming lower until `apply` confirms it, and searching for the fastest plan that does.

Planners import it; it imports `planning.costing` and `planning.analysis`.
"""
