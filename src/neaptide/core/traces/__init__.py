"""Traces and what is read off them: the columns, the file format, memory curves and profiles.

Every room imports it. It imports only `core.units` and `core.device`.
"""
