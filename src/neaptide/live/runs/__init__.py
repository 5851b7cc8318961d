"""Starting a daemon, launching jobs under it and watching them until they end.

Commands import it; it talks to the daemon through `live.protocol`.
"""
