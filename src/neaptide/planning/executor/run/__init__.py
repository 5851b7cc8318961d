"""Carries a program out on a running model: copies to the host and back, codecs, and ops that run again.

`fitting` imports it; it imports `planning.executor.compile`.
"""
