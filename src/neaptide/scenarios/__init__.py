"""From a scenario file to runs in virtual time: tables, traces, submissions, and the comparison of policies.

Also the sources and the cache of traces, which `profile`, `plan` and the reproductions use too. Commands and
`reproductions` import this room.
"""
