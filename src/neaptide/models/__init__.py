"""The papers' networks in plain torch, one file per family; `build` makes any of them by name."""

from neaptide.models import vgg
from neaptide.models.zoo import Recipe, Scale, Workload, build, names, recipe

__all__ = ["Recipe", "Scale", "Workload", "build", "names", "recipe", "vgg"]
