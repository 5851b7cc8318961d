"""Rules that several policies share.

`admission` and `turns` decide which jobs are on the device, `residence` and `precedence` do so by rank, `lanes` by
Salus's lanes. `stagger` and `slack` decide when an iteration starts, `shares` what priorities are worth, `plans` which
plan a job follows. `ranking` orders jobs; `danger`, `deadlines` and `request_memory` serve deadlines; `idle` lets idle
servers make way; `sm_shares` divides the SMs. Policies and `neaptide.policy` import these; the parts import `core` and
each other.
"""
