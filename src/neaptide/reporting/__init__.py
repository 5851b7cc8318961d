"""What people read: metrics, tables, figures and pages, made from traces and event logs.

`logs` turns event logs into values; `figures` draws them, as do `terminal` and `pages`, which import both and not each
other. `formats` writes numbers for all of them. Nothing here imports torch; scenarios, reproductions and commands
import this room.
"""
