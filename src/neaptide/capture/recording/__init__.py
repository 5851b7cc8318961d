"""Logs the ops and storages of a running program below autograd, and cuts the log into iterations.

`capture` and `fitting` import it.
"""
