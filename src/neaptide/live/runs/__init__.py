"""Finding or starting a daemon, launching jobs under it and watching them until they end.

Commands, `neaptide.api`, reports and `verification` import it; it talks to the daemon through `live.protocol`.
"""
