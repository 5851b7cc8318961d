"""From a model, a step function or a script to the trace of one iteration.

`measured` runs a step, `estimated` only computes with shapes, `script` runs a whole program, and `boundaries` finds the
iterations of a running program. `recording/` logs ops and tensors, `timing/` gives ops their times, `session` leads one
capture through its iterations, and `files` writes traces to disk. All but `files` needs torch. fitting, live, scenarios
and cli import this room; it imports core and devices.
"""
