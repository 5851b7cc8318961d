"""Shows early allocation on the software GPU: what launching ahead holds beyond what the kernels need.

    python examples/early_allocation.py early-allocation.png

Memory is taken at launch, and the steps of ResNet-18 are launched far ahead of the device. Where a freed block can only
be taken again when the device has passed its last use, that holds memory early; a bound on the kernels in flight limits
it. Where freed blocks are taken again at launch, as the device does by default, the peak is the same at any bound, and
the bound makes what is held follow what is needed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import neaptide.devices.soft  # noqa: F401 - makes the device
from neaptide import models
from neaptide.core.units import MIB

STEPS = 3
CAPS = (None, 64, 16, 4, 1)


@dataclass(frozen=True)
class Run:
    cap: int | None
    reuse: bool
    held: list[tuple[float, int]]  # seconds, bytes: leased from the device
    needed: list[tuple[float, int]]  # by the kernels that run
    peak_ratio: float


def run(cap: int | None, reuse: bool, batch: int) -> Run:
    torch.manual_seed(0)
    with torch.soft.persistent_memory():
        work = models.build("resnet18", batch=batch, device="soft")
    work.step()
    torch.soft.empty_cache()
    torch.soft.set_in_flight_cap(cap)
    torch.soft.set_reuse_at_launch(reuse)
    torch.soft.reset_peak_memory_stats()
    before = torch.soft.memory_allocated()
    with torch.soft.record_memory_series() as samples, torch.soft.log_kernels():
        for _ in range(STEPS):
            work.step()
    ratio = torch.soft.max_memory_reserved() / torch.soft.max_memory_allocated()
    torch.soft.set_in_flight_cap(None)
    torch.soft.set_reuse_at_launch(True)

    start = samples[0].time_ns
    level, needed = before, []
    for kernel in torch.soft.kernel_log():
        level += kernel.taken_bytes - kernel.given_bytes
        needed.append(((kernel.start_ns - start) * 1e-9, level))
    return Run(cap, reuse, [((s.time_ns - start) * 1e-9, s.held) for s in samples], needed, ratio)


def draw(axes: Axes, shown: Run) -> None:
    for points, style in ((shown.held, {"color": "#d9796c"}), (shown.needed, {"color": "#33506e"})):
        axes.step([t for t, _ in points], [b / MIB for _, b in points], where="post", linewidth=1, **style)
    bound = "no bound" if shown.cap is None else f"at most {shown.cap} in flight"
    again = ", freed blocks taken again at launch" if shown.reuse else ""
    axes.set_title(f"{bound}{again}: peak held {shown.peak_ratio:.2f} of need", fontsize=8, loc="left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", help="PNG, SVG or PDF file to draw into")
    parser.add_argument("--batch", type=int, default=4)
    arguments = parser.parse_args()
    runs = [run(cap, False, arguments.batch) for cap in CAPS] + [run(cap, True, arguments.batch) for cap in (None, 4)]
    figure = Figure(figsize=(6.4, 8.6), layout="constrained")
    for panel, shown in zip(figure.subplots(len(runs), 1, sharey=True), runs, strict=True):
        draw(panel, shown)
        panel.set_ylim(bottom=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7)
        panel.set_ylabel("MiB", fontsize=7)
    panel.set_xlabel("seconds", fontsize=7)
    figure.legend(
        ["held", "needed by the running kernels"], loc="outside upper center", ncols=2, fontsize=8, frameon=False
    )
    figure.savefig(arguments.figure, dpi=150)
    for shown in runs:
        again = " (freed blocks taken again at launch)" if shown.reuse else ""
        print(f"in flight at most {shown.cap}{again}: peak held {shown.peak_ratio:.3f} of need")


if __name__ == "__main__":
    main()
