"""Salus's public workloads: how long each took alone, as its authors measured it.

Facts from github.com/SymbioticLab/Salus, tests/workloads.csv at commit 046ca91 (columns name and run time): 11 networks
at three batch sizes, each in three lengths of about one, five and ten minutes. The order in which they were submitted,
and when, is not public.
"""

from __future__ import annotations

import random

from neaptide.simulation.workloads import JobWanted

# Seconds alone, in the three lengths.
SECONDS: dict[tuple[str, int], tuple[float, float, float]] = {
    ("vgg11", 25): (63.091, 302.224, 600.798),
    ("vgg11", 50): (62.632, 299.802, 597.285),
    ("vgg11", 100): (62.2, 300.103, 596.469),
    ("vgg16", 25): (63.291, 301.822, 600.220),
    ("vgg16", 50): (61.519, 291.388, 579.577),
    ("vgg16", 100): (62.619, 299.997, 597.569),
    ("vgg19", 25): (64.009, 304.351, 601.341),
    ("vgg19", 50): (63.012, 302.346, 597.953),
    ("vgg19", 100): (61.795, 300.085, 594.33),
    ("resnet50", 25): (77.603, 316.964, 608.143),
    ("resnet50", 50): (80.197, 319.853, 622.919),
    ("resnet50", 75): (81.976, 321.79, 622.701),
    ("resnet101", 25): (93.164, 334.192, 630.932),
    ("resnet101", 50): (96.229, 337.044, 633.188),
    ("resnet101", 75): (98.048, 339.687, 669.976),
    ("resnet152", 25): (107.908, 345.824, 641.635),
    ("resnet152", 50): (111.707, 355.468, 651.051),
    ("resnet152", 75): (113.93, 353.315, 655.592),
    ("googlenet", 25): (72.915, 310.834, 608.399),
    ("googlenet", 50): (74.189, 313.769, 609.66),
    ("googlenet", 100): (76.356, 315.847, 615.99),
    ("alexnet", 25): (60.53, 266.744, 560.748),
    ("alexnet", 50): (67.839, 317.912, 626.411),
    ("alexnet", 100): (70.057, 318.556, 616.392),
    ("overfeat", 25): (77.061, 343.624, 653.217),
    ("overfeat", 50): (72.876, 320.883, 621.007),
    ("overfeat", 100): (76.228, 330.904, 623.352),
    ("inception3", 25): (92.882, 336.746, 641.567),
    ("inception3", 50): (95.395, 339.403, 639.109),
    ("inception3", 100): (100.089, 339.576, 638.577),
    ("inception4", 25): (107.817, 345.44, 650.443),
    ("inception4", 50): (113.146, 352.773, 654.045),
    ("inception4", 75): (117.501, 357.711, 658.754),
}


def public_workloads(seed: int) -> tuple[JobWanted, ...]:
    """All 99 of them, each once and all at the same time, in a random order."""
    jobs = [JobWanted(model, batch, 0, seconds) for (model, batch), lengths in SECONDS.items() for seconds in lengths]
    random.Random(seed).shuffle(jobs)
    return tuple(jobs)
