"""Rules that several policies share.

`admission` and `ageing` decide which jobs are on the device, `residence` and `precedence` do so by rank, `lanes` by
Salus's lanes. `stagger`, `slack` and `replicas` decide when an iteration starts, `plans` which plan a job follows;
`copying` says what a move to host memory costs.
Policies import these; the parts import `core` and each other.
"""
