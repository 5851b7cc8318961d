"""What a planner reads off a trace: the tensors it may plan, when they are idle, how they are recomputed, lower bounds.

It imports `core`, `planning.plan` and `planning.costing`. Planners, `planning.search`, `planning.checkmate` and the
executor's compiler import it.
"""
