"""What a plan costs: the rows of a planned iteration, when they run, and which bytes each of them holds.

It imports only `core` and `planning.plan`. `planning.apply`, the other rooms of `planning` and the executor import it.
"""
