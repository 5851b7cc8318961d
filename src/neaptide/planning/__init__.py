"""One job in less memory: plans, what they cost, the planners that make them, and the executor that runs them.

- `plan`: what a plan is. `apply`: the planned trace. `frontier`: several plans of one job.
- `costing`: what a plan costs. `analysis`: what planners read off a trace.
- `search`, `checkmate`: how planners find a plan within a budget. `planners`: one file per planner, and their registry.
- `executor`: runs a plan on a real model; only the executor needs torch.

Each of these imports only those before it; `core` is the only room outside that they import. Planner authors use
`neaptide.plan`, which shows what they need of all this.
"""
