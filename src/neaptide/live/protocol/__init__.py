"""What jobs, commands and the daemon say to each other, and where they meet: messages, framing, paths, the lock.

Everything in `live` imports it.
"""
