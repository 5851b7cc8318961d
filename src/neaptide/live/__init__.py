"""The engine on real processes: a daemon that permits iterations, and clients inside the jobs.

`protocol` is what the two say to each other, `daemon` and `job` are the two ends, and `runs` starts both. Reports,
commands, `verification` and `neaptide.api` import it; it imports no policy and no device by name.
"""
