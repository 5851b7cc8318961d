"""The commands, one file each. `cli.app` loads a command's file when it is called.

Nothing imports a command but `cli.app`.
"""
