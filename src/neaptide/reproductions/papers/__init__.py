"""One file per paper, with `DEVICE` and `reproduce(Laboratory) -> Reproduction`.

The command `neaptide reproduce` loads the files by name.
"""
