"""Two jobs at every budget: from what the larger needs alone to what both need at once.

`neaptide bench sweep` also writes docs/images/sweep.png and docs/sweep.md; `python -m benchmarks.sweep --quick` tries a
few budgets of two pairs and writes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks._live import Load, Together, together

from neaptide.core.units import format_bytes
from neaptide.reporting.figures.files import save_figure
from neaptide.reporting.terminal.bench import Figure, figure_line

POLICY = "neaptide"
STEPS = 12
ROUNDS = 3
SECONDS = 4.0
ALONE_SECONDS = 1.5
MLP, CONV_NET = Load("MLP", 256, None), Load("conv net", 64, None)
GPT, RESNET = Load("GPT-2", 8, None), Load("ResNet-50", 8, None)
PAIRS = {
    "two MLPs": (MLP, MLP),
    "MLP and conv net": (MLP, CONV_NET),
    "two GPT-2": (GPT, GPT),
    "ResNet-50 and GPT-2": (RESNET, GPT),
}
QUICK = {name: PAIRS[name] for name in ("two MLPs", "two GPT-2")}
_DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True, slots=True)
class Point:
    """One pair under one budget."""

    budget_bytes: int
    throughput: float  # of taking turns: each alone, one after the other, for the same work
    evictions_per_minute: float
    high_water: float  # of the budget


def figures() -> Iterator[Figure]:
    """The lowest throughput of each pair and its most evictions per minute; the budget is never exceeded."""
    swept: dict[str, list[Point]] = {}
    for name, loads in PAIRS.items():
        swept[name] = []
        for point in sweep(loads, STEPS, ROUNDS):
            swept[name].append(point)
            yield Figure(f"{name}, {format_bytes(point.budget_bytes)}", point.throughput, "x turns", ">= 0.9")
        yield from _summary(name, swept[name])
    save_figure(lambda: _picture(swept), _DOCS / "images" / "sweep.png")
    (_DOCS / "sweep.md").write_text(_page(swept))


def sweep(loads: Sequence[Load], steps: int, rounds: int) -> Iterator[Point]:
    """A fresh daemon at each budget. The jobs alone keep their daemons: they are measured again around each round."""
    with ExitStack() as stack:
        alone = {load: stack.enter_context(together([load], POLICY, None)) for load in dict.fromkeys(loads)}
        for each in alone.values():
            each.counted(ALONE_SECONDS)
        most = {load: max(each.high_water_bytes, *each.needs_bytes) for load, each in alone.items()}
        needs = [most[load] for load in loads]
        for step in range(steps):
            budget_bytes = max(needs) + (sum(needs) - max(needs)) * step // (steps - 1)
            yield _point(loads, alone, budget_bytes, rounds)


def _point(loads: Sequence[Load], alone: Mapping[Load, Together], budget_bytes: int, rounds: int) -> Point:
    """The mean of some rounds. The machine's speed changes, so each round has the jobs alone before it and after it."""
    with together(loads, POLICY, budget_bytes) as pair:
        alone_rates = [_rates(alone)]
        throughputs = []
        for _ in range(rounds):
            pair_rates = pair.counted(SECONDS)
            alone_rates.append(_rates(alone))
            of_turns = (
                rate * (1 / alone_rates[-2][load] + 1 / alone_rates[-1][load]) / 2
                for load, rate in zip(loads, pair_rates, strict=True)
            )
            throughputs.append(sum(of_turns))
        evictions, lasted_seconds = pair.evictions
        return Point(
            budget_bytes=budget_bytes,
            throughput=sum(throughputs) / rounds,
            evictions_per_minute=60 * evictions / max(lasted_seconds, 1e-9),
            high_water=pair.high_water_bytes / budget_bytes,
        )


def _rates(alone: Mapping[Load, Together]) -> dict[Load, float]:
    return {load: each.rates(ALONE_SECONDS)[0] for load, each in alone.items()}


def _summary(name: str, points: Sequence[Point]) -> Iterator[Figure]:
    yield Figure(f"{name}: lowest throughput", min(point.throughput for point in points), "x turns", ">= 0.9")
    yield Figure(f"{name}: most evictions", max(point.evictions_per_minute for point in points), "per minute")
    yield Figure(f"{name}: highest held", max(point.high_water for point in points), "of the budget", "<= 1")


def _picture(swept: Mapping[str, Sequence[Point]]) -> object:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(6.0, 4.0), layout="constrained")
    above, below = picture.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for name, points in swept.items():
        least, most = points[0].budget_bytes, points[-1].budget_bytes
        at = [(point.budget_bytes - least) / (most - least) for point in points]
        above.plot(at, [point.throughput for point in points], marker="o", markersize=3, label=name)
        below.plot(at, [point.evictions_per_minute for point in points], marker="o", markersize=3)
    above.axhline(0.9, color="grey", linewidth=0.6, linestyle="--")
    above.set_ylabel("throughput, of taking turns")
    above.set_ylim(bottom=0)
    above.legend()
    below.set_ylabel("evictions per minute")
    below.set_ylim(bottom=0)
    below.set_xlabel("budget: 0 is what the larger job needs alone, 1 what both need at once")
    return picture


def _page(swept: Mapping[str, Sequence[Point]]) -> str:
    lines = [
        "# Two jobs at every budget",
        "",
        "Written by `neaptide bench sweep`. Throughput is that of both jobs together, where 1 is taking turns: each",
        "alone, one after the other, for the same work. The smallest budget is what the larger job needs alone, the",
        "largest what both need at once.",
        "",
        "![Throughput and evictions over the budget](images/sweep.png)",
    ]
    for name, points in swept.items():
        lines += ["", f"## {name}", "", "| budget | throughput | evictions per minute | highest held, of the budget |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| {format_bytes(point.budget_bytes)} | {point.throughput:.2f} | {point.evictions_per_minute:.1f} "
            f"| {point.high_water:.3f} |"
            for point in points
        ]
    return "\n".join(lines) + "\n"


def quick() -> None:
    """A few budgets of two pairs, printed as they come."""
    for name, loads in QUICK.items():
        points = []
        for point in sweep(loads, 5, 2):
            points.append(point)
            print(f"{name}, {format_bytes(point.budget_bytes)}: {point}", flush=True)
        for figure in _summary(name, points):
            print(figure_line(figure), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] != ["--quick"]:
        raise SystemExit("use: python -m benchmarks.sweep --quick, or neaptide bench sweep")
    quick()
