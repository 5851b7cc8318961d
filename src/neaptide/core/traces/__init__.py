"""Traces and what is read off them: the columns, the file format, memory curves and profiles.

Nearly every room imports it. It imports only `core.rules`.
"""
