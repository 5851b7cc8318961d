"""Runs a plan on a real eager model, through the hooks that autograd offers for saved tensors.

`compile` turns a plan and a recorded iteration into a program; `run` carries the program out. `fitting` imports both.
"""
