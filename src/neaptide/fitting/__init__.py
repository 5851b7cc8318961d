"""`neaptide.fit`: trains a model of this process within a byte budget.

`run` profiles iterations with `tape` (the recorder) and `relief` (saved tensors wait in host memory meanwhile),
`choosing` makes the plan, the planning executor carries it out, and `gauge`, `link` and `report` measure and report. It
joins capture and planning; only `neaptide` imports it.
"""
