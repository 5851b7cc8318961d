"""How close estimates are to measurements on a V100: estimated time over measured time.

The measurements are public and not part of this repository: kernel times of the Orion project and steps per second of
the Gavel project. The folder that NEAPTIDE_MEASUREMENTS names has them, or ../shared/data.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from benchmarks.contention import measurements

from neaptide import estimate, models
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.reporting.terminal.bench import Figure

V100 = find_device("V100-16GB")
# (file, network, batch); names of inference files end with fwd, of training files (without optimizer) with fb1.
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
    """Compare kernel times with Orion's measurements, and step times with Gavel's."""
    folder = measurements()
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
