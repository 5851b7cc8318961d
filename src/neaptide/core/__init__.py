"""The vocabulary of the project: no torch, no files, no clock, no randomness.

`traces` says what a job does, `rules` how jobs share, and `control` runs a policy. `device`, `units`, `text`,
`registry` and `once` serve all of them. Every room may import core; core imports nothing of neaptide but its version.
"""
