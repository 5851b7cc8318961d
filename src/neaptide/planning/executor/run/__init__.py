"""Carries a program out on a running model: copies to the host and back, codecs, and ops that run again.

It imports `executor.compile` and `planning.plan`. `fitting` imports it.
"""
