"""The papers' experiments on the papers' devices, one file each: `reproduce(Laboratory) -> Reproduction`."""
