"""What `neaptide run` does: reads a file of jobs, finds or starts a daemon, runs the jobs and reports on them.

`cli.commands.run` imports it, and nothing else does.
"""
