"""How close estimates are to what others measured on a V100: estimated time over measured time.

The measurements are public and not part of this repository: kernel times of the Orion project and steps per second of
the Gavel project. They are looked for in the folder that NEAPTIDE_MEASUREMENTS names, else in ../shared/data.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

from neaptide import estimate, models
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.reporting.terminal.bench import Figure

V100 = find_device("V100-16GB")
# (file, network, batch); serving files end with fwd, training ones (forward and backward only) with fb1.
KERNELS = (
    ("resnet50_4_fwd", "resnet50", 4),
    ("resnet101_4_fwd", "resnet101", 4),
    ("mobilenetv2_4_fwd", "mobilenet-v2", 4),
    ("resnet50_32_fb1", "resnet50", 32),
    ("resnet101_32_fb1", "resnet101", 32),
    ("mobilenetv2_32_fb1", "mobilenet-v2", 32),
    ("mobilenetv2_64_fb1", "mobilenet-v2", 64),
    ("mobilenetv2_96_fb1", "mobilenet-v2", 96),
)
STEPS = tuple((f"ResNet-50 (batch size {batch})", "resnet50", batch) for batch in (16, 32, 64, 128))


def figures() -> Iterator[Figure]:
    """Compare kernel time where kernels were measured, and step time where steps were."""
    folder = Path(os.environ.get("NEAPTIDE_MEASUREMENTS", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise ValueError(f"no measurements in {folder}; set NEAPTIDE_MEASUREMENTS to the folder that has them")
    for file, network, batch in KERNELS:
        with (folder / "orion-v100-kernels" / f"{file}.csv").open() as rows:
            measured = sum(float(row["Duration"]) for row in csv.DictReader(rows)) * 1e-9
        trace = _estimate(network, batch, training=file.endswith("fb1"))
        kernels = float(trace.ops.seconds[trace.ops.phase != Phase.OPTIMIZER].sum())
        work = "training" if file.endswith("fb1") else "inference"
        yield Figure(f"kernel time of {network}, batch {batch}, {work}", kernels / measured, "x")
    with (folder / "gavel-v100-pairs" / "solo.csv").open() as rows:
        steps_per_second = {row["job"]: float(row["steps_per_s"]) for row in csv.DictReader(rows)}
    for job, network, batch in STEPS:
        seconds = _estimate(network, batch, training=True).seconds
        yield Figure(f"step time of {network}, batch {batch}, training", seconds * steps_per_second[job], "x")


def _estimate(network: str, batch: int, training: bool) -> Trace:
    return estimate(lambda: models.build(network, batch).step if training else models.build(network, batch).infer, V100)
