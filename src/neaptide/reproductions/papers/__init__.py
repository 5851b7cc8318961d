"""The papers' experiments on the papers' devices, one file per paper: `reproduce(Laboratory) -> Reproduction`.

The command `neaptide reproduce` loads them by name.
"""
