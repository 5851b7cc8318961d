"""What a planner reads off a trace: the tensors it may plan, when they are idle, how they are recomputed, lower bounds.

It imports `core`, `planning.plan` and `planning.costing`. The rooms of `planning` above it, `fitting`, the
reproductions, the command `neaptide plan` and `neaptide.plan` import it.
"""
