"""Finding or starting a daemon, launching jobs under it and watching them until they end.

Commands and `neaptide.api` import it; it talks to the daemon through `live.protocol`.
"""
