"""What a plan costs: the order, the copies, the times and the bytes of a planned iteration.

`planning.apply` and every planner import it. It imports only `core` and `planning.plan`.
"""
