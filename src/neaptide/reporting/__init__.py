"""What people read: metrics, tables, figures and pages, made from traces and event logs.

`logs` turns event logs into values, and `figures` draws them. `terminal` and `pages` use both, and do not import each
other. `formats` writes numbers for all of them. Nothing here imports torch; scenarios, reproductions, `verification`
and commands import this room.
"""
