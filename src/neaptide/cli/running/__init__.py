"""What `neaptide run` does: reads a file of jobs, runs the jobs under a daemon and reports on them.

`cli.commands.run` imports it, and nothing else does.
"""
