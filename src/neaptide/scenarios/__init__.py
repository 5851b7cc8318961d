"""From a scenario file to what the simulator runs: jobs, copies, arrivals, requests, and their traces.

Commands and `reproductions` import it.
"""
