"""Two jobs that do not fit side by side, and do once their iterations are staggered.

    python examples/two_tides.py a.trace b.trace --figure two-tides.png

Reads two traces (`neaptide profile ... -o a.trace`), places a few iterations of each as early as the budget allows, and
draws the memory of both. Each job runs at the speed it has alone: how two jobs slow each other is another question.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neaptide.capture.files import load_trace
from neaptide.core.traces.curve import MemoryCurve, total
from neaptide.core.traces.trace import Trace
from neaptide.core.units import GIB, format_bytes, format_seconds, parse_bytes

COLOURS = ("#3b6ea5", "#e0a030")
Placed = list[list[MemoryCurve]]  # per job, its iterations in time


def together(tides: list[MemoryCurve], iterations: int) -> Placed:
    """Every job starts at once and goes on without a pause."""
    return [[tide.shift(i * tide.duration_ns) for i in range(iterations)] for tide in tides]


def staggered(tides: list[MemoryCurve], budget: int, iterations: int) -> Placed:
    """Each iteration starts as early as the budget allows, the job that is ready first going first."""
    placed: Placed = [[] for _ in tides]
    for _ in range(iterations * len(tides)):
        ready = [job[-1].end_ns if job else 0 for job in placed]
        job = min((j for j in range(len(tides)) if len(placed[j]) < iterations), key=lambda j: ready[j])
        others = [curve for other in placed for curve in other]
        delay = tides[job].earliest_fit(total(others) if others else None, budget, not_before_ns=ready[job])
        if delay is None:
            raise SystemExit(f"a budget of {format_bytes(budget)} is too small for job {job + 1} alone")
        placed[job].append(tides[job].shift(delay))
    return placed


def draw(axes: Axes, placed: Placed, persistent: list[int], names: list[str], budget: int, title: str) -> None:
    """Stack what the jobs hold over time, under the budget line."""
    everything = total([curve for job in placed for curve in job])
    edges = everything.edges_ns
    held = [total(job).at(edges) + stays for job, stays in zip(placed, persistent, strict=True)]
    axes.stackplot(edges / 1e6, [h / GIB for h in held], labels=names, colors=COLOURS, step="post", linewidth=0)
    axes.margins(x=0)
    axes.axhline(budget / GIB, color="#b03030", linewidth=1, linestyle="--")
    axes.set_title(f"{title}: {format_bytes(everything.peak + sum(persistent))} at most", loc="left", fontsize=9)
    axes.set_ylabel("Memory (GiB)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs=2, type=Path)
    parser.add_argument("--budget", type=parse_bytes, help="default: 0.65 of the sum of both peaks")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--figure", type=Path, default=Path("two-tides.png"))
    chosen = parser.parse_args()

    traces: list[Trace] = [load_trace(path) for path in chosen.traces]
    persistent = [trace.persistent_bytes for trace in traces]
    tides = [trace.curve().lower(stays).coarsen(256) for trace, stays in zip(traces, persistent, strict=True)]
    budget = chosen.budget or int(0.65 * sum(trace.peak_bytes for trace in traces))
    names = [f"{trace.name}, batch {trace.batch}" for trace in traces]

    at_once = together(tides, chosen.iterations)
    in_turn = staggered(tides, budget - sum(persistent), chosen.iterations)
    with matplotlib.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 8}):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, sharey=True)
        draw(upper, at_once, persistent, names, budget, "Side by side")
        draw(lower, in_turn, persistent, names, budget, "Staggered")
        upper.annotate(
            f"budget {format_bytes(budget)}", (1, budget / GIB), xycoords=("axes fraction", "data"), ha="right",
            xytext=(0, 3), textcoords="offset points", color="#b03030",
        )  # fmt: skip
        upper.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        lower.set_xlabel("Time (ms)")
        figure.savefig(chosen.figure, dpi=160)

    ends = [max(job[-1].end_ns for job in placed) for placed in (at_once, in_turn)]
    print(f"sum of the peaks {format_bytes(sum(trace.peak_bytes for trace in traces))}, budget {format_bytes(budget)}")
    print(f"staggering adds {format_seconds((ends[1] - ends[0]) / 1e9)} to {format_seconds(ends[0] / 1e9)}")
    print(f"wrote {chosen.figure}")


if __name__ == "__main__":
    main()
