"""The papers' experiments on the papers' devices, in virtual time and on estimated traces.

`papers` has one file per paper, `networks` the layers of SuperNeurons' networks. The files here are shared between
papers, or hold one part of an experiment (`serving` of Salus, `translation` and `mps` of Herald). Only the command
`neaptide reproduce` imports this room.
"""
