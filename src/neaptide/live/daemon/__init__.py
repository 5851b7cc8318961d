"""The engine on real processes: the daemon's server, its engine, and what it does about jobs that wait, hang or die.

It loads no torch. Commands start it through `live.runs`.
"""
