"""How close simulated rates of jobs side by side are to measurements on a V100 under MPS.

The measurements are public and not part of this repository: pairs of jobs by the Gavel project, kernels by the Orion
project. fidelity.py says where they are. `python -m benchmarks.contention FILE.png` draws both halves.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from benchmarks import _gavel as gavel
from matplotlib.figure import Figure as Drawing

from neaptide import estimate, models
from neaptide.core.traces.columns import Flags, Floats
from neaptide.core.traces.trace import LIGHT_FILL, Trace
from neaptide.reporting.figures.files import STYLE
from neaptide.reporting.terminal.bench import Figure
from neaptide.simulation import Contention
from neaptide.simulation.contention import demands_of

GOAL = 12.0  # percent of a job's rate alone
WAVES = (50e-6, 70e-6, 100e-6, 140e-6, 200e-6)  # compared with the default
HOST_BOUND = ("A3C", "Recommendation")  # the process that launches kernels also plays games or makes batches
KERNELS = (("resnet50_32_fb1", "resnet50", 32), ("mobilenetv2_32_fb1", "mobilenet-v2", 32))


def figures() -> Iterator[Figure]:
    """Mean absolute errors of normalised rates in percent, and the model's parts against Orion's kernels."""
    folder = measurements()
    pairs = gavel.measured_pairs(folder / "gavel-v100-pairs")
    fitted, held_out = _halves(pairs)
    measured = {half: _array(chosen) for half, chosen in (("fitted", fitted), ("held out", held_out))}
    traces = traces_of(pairs, folder)
    yield Figure("pairs, fitted half", len(fitted), "pairs")
    yield Figure("pairs, held-out half", len(held_out), "pairs")
    for half, chosen, goal in (("fitted", fitted, ""), ("held out", held_out, f"<= {GOAL}")):
        found = predict(chosen, traces, Contention())
        yield Figure(f"error, {half}", _error(found, measured[half]), "%", goal)
        yield Figure(f"bias, {half}", 100 * float((found - measured[half]).mean()), "%")
    found = predict(held_out, traces, Contention())
    yield Figure("relative error, held out", 100 * float((np.abs(found / measured["held out"] - 1)).mean()), "%")
    for name, chosen in _kinds(held_out):
        yield Figure(f"error, held out, {name}", _error(found[chosen], measured["held out"][chosen]), "%")
    yield Figure("error, held out, without contention", _error(np.ones(()), measured["held out"]), "%")
    yield Figure("error, held out, half for each", _error(np.full((), 0.5), measured["held out"]), "%")
    yield Figure(
        "error, held out, shared without waves",
        _error(predict(held_out, traces, Contention(wave_seconds=0)), measured["held out"]),
        "%",
    )
    for wave in WAVES:
        found = predict(fitted, traces, Contention(wave_seconds=wave))
        yield Figure(f"error, fitted, wave of {wave * 1e6:.0f} us", _error(found, measured["fitted"]), "%")
    for file, network, batch in KERNELS:
        yield from _kernels(folder / "orion-v100-kernels" / f"{file}.csv", network, batch)


def measurements() -> Path:
    """The folder of public measurements; ValueError if there is none."""
    folder = Path(os.environ.get("NEAPTIDE_MEASUREMENTS", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise ValueError(f"no measurements in {folder}; set NEAPTIDE_MEASUREMENTS to the folder that has them")
    return folder


def traces_of(pairs: Sequence[gavel.Pair], folder: Path) -> dict[str, Trace]:
    """A trace for each job of the pairs, scaled to its measured time alone."""
    alone = gavel.measured_seconds(folder / "gavel-v100-pairs")
    return gavel.traces({job: alone[job] for job in dict.fromkeys(job for pair in pairs for job in pair.jobs)})


def predict(pairs: Sequence[gavel.Pair], traces: dict[str, Trace], contention: Contention) -> Floats:
    """The rates of each pair in the simulator, one row per pair."""
    return np.array([gavel.predicted([traces[job] for job in pair.jobs], contention) for pair in pairs])


def _halves(pairs: Sequence[gavel.Pair]) -> tuple[list[gavel.Pair], list[gavel.Pair]]:
    return [pair for pair in pairs if pair.fitted], [pair for pair in pairs if not pair.fitted]


def _kinds(pairs: Sequence[gavel.Pair]) -> Iterator[tuple[str, Flags]]:
    """The pairs by their number of host-bound jobs."""
    jobs = np.array([sum(gavel.parsed(job)[0] in HOST_BOUND for job in pair.jobs) for pair in pairs])
    for count in np.unique(jobs):
        yield f"{(jobs == count).sum()} pairs with {count} of {' and '.join(HOST_BOUND)}", jobs == count


def _array(pairs: Sequence[gavel.Pair]) -> Floats:
    return np.array([pair.rates for pair in pairs])


def _error(found: Floats, measured: Floats) -> float:
    return 100 * float(np.abs(found - measured).mean())


def _kernels(path: Path, network: str, batch: int) -> Iterator[Figure]:
    """Shares of device time, measured and estimated: in light ops, and in ops bound by compute."""
    with path.open() as rows:
        kernels = list(csv.DictReader(rows))
    seconds = np.array([1e-9 * float(kernel["Duration"]) for kernel in kernels])
    sms = np.array([float(kernel["SM_usage"]) for kernel in kernels])
    bound = np.array([int(kernel["Profile"]) for kernel in kernels])  # 1 compute, 0 memory, -1 unknown
    waves = seconds / np.ceil(np.maximum(sms, 1) / gavel.V100.sms)
    full = sms >= gavel.V100.sms
    trace = estimate(lambda: models.build(network, batch).step, gavel.V100)
    compute, bandwidth, fill = demands_of(trace, gavel.V100)
    own = trace.ops.seconds
    name = f"{network}, batch {batch}"
    yield Figure(f"{name}: a wave of blocks, weighted by time", 1e6 * _share(waves, seconds * full), "us")
    yield Figure(f"{name}: time in light ops, measured", 100 * _share(sms < LIGHT_FILL * gavel.V100.sms, seconds), "%")
    yield Figure(f"{name}: time in light ops, estimated", 100 * _share(fill < LIGHT_FILL, own), "%")
    yield Figure(f"{name}: time bound by compute, measured", 100 * _share(bound == 1, seconds * (bound >= 0)), "%")
    yield Figure(f"{name}: time bound by compute, estimated", 100 * _share(compute > bandwidth, own), "%")


def _share(value: np.ndarray, weight: Floats) -> float:
    return float((value * weight).sum() / weight.sum())


def draw(path: Path) -> None:
    """Draw predicted against measured rates of both halves."""
    folder = measurements()
    pairs = gavel.measured_pairs(folder / "gavel-v100-pairs")
    traces = traces_of(pairs, folder)
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(3.4, 3.4), layout="constrained")
        axes = figure.add_subplot(aspect="equal")
        axes.plot([0, 1], [0, 1], color="#8c8c8c", linewidth=0.6, zorder=0)
        off = GOAL / 100
        axes.fill_between([0, 1], [-off, 1 - off], [off, 1 + off], color="#8c8c8c", alpha=0.15, linewidth=0, zorder=0)
        for label, chosen, marker, colour in zip(
            ("fitted", "held out"), _halves(pairs), ("o", "D"), ("#9cc3e0", "#d9796c"), strict=True
        ):
            found, measured = predict(chosen, traces, Contention()), _array(chosen)
            text = f"{label}: {len(chosen)} pairs, mean error {_error(found, measured):.1f}%"
            axes.scatter(
                measured, found, s=11, marker=marker, color=colour, edgecolor="#33506e", linewidth=0.4, label=text
            )
        axes.set(
            xlim=(0, 1.03), ylim=(0, 1.03), xlabel="measured rate / rate alone", ylabel="simulated rate / rate alone"
        )
        axes.legend(loc="lower right", handletextpad=0.2)
        figure.savefig(path, dpi=300)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
