"""The messages between jobs, commands and the daemon, how they are sent, and the files of a daemon.

Everything in `live` imports it, and so do commands, reports and `verification`.
"""
