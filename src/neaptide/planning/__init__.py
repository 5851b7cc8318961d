"""One job in less memory: plans, what they cost, the planners that make them, and the executor that runs them.

- `plan`: what a plan is. `costing`: what it costs. `apply`: the planned trace.
- `analysis`: what planners read off a trace. `search`, `checkmate`: how planners find a plan within a budget.
- `planners`: one file per planner, and their registry. `frontier`: several plans of one job.
- `executor`: runs a plan on a real model. It imports no planner, and nothing else here needs torch.

Each of these imports only those named before it; outside this room they import `core`, and `planners` also
`user_files`. The rooms above import them; users import `neaptide.plan`, which shows what the author of a planner needs.
"""
