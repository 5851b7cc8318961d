"""What the daemon finds out by looking at the board: deadlocks, unresponsive jobs, and the memory that jobs hold.

No message tells of these. `live.daemon.daemon` and `live.daemon.newcomers` import it.
"""
