"""The papers' networks in plain torch, one file per family; `build` makes any of them by name.

`zoo` registers the families; `attention`, `branches` and `feed` are pieces that several families share. Nothing here
imports another room. reproductions, scenarios, `verification` and users import it.
"""

from neaptide.models import (  # noqa: F401 - each one registers its names
    alexnet,
    bert,
    densenet,
    gnmt,
    googlenet,
    gpt,
    inception,
    mobilenet,
    nasnet,
    overfeat,
    resnet,
    rhn,
    rnnlm,
    seq2seq,
    speech,
    superres,
    transformer,
    unet,
    vae,
    vgg,
)
from neaptide.models.zoo import Recipe, Scale, Workload, build, names, recipe

__all__ = ["Recipe", "Scale", "Workload", "build", "names", "recipe"]
