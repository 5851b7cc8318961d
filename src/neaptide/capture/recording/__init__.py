"""Watches a running program below autograd and cuts what it saw into iterations.

`capture` itself and `fitting` import it.
"""
