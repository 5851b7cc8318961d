"""What a planner reads off a trace: which tensors it may act on, when they are idle, what no plan can go below.

Planners, `planning.search` and `planning.checkmate` import it.
"""
