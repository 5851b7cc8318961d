"""`neaptide verify`: whether a device keeps what neaptide promises, found out by running jobs on it.

`programs/` run as processes on the device. `groups.py`, `moves.py` and `refusals.py` start them and say what happened;
`judging.py` makes a verdict of that; `verify.py` has the order of everything. `cli.commands.verify` imports it, and
nothing else does.
"""
