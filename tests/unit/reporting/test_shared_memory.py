"""The figure of the bytes that jobs held over a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from neaptide.core.control.events import IterationEnded, JobArrived
from neaptide.core.units import GIB
from neaptide.reporting.figures.colours import COLOURS
from neaptide.reporting.figures.shared_memory import draw_shared_memory, save_shared_memory
from neaptide.reporting.figures.windows import Window, budget_over_time, close_up, level_at, sample
from neaptide.reporting.logs.comparison import SimulatedRun
from neaptide.reporting.logs.metrics import metrics_of
from outcomes import ENTRIES, MS, job, outcome, series, simulated_run


def stair_tops(figure: Figure) -> list[float]:
    """The highest point of each layer of the first panel, with the budget line and the excess over it."""
    return [float(patch.get_data().values.max()) for patch in figure.axes[0].patches]


def test_jobs_are_stacked_and_the_excess_over_the_budget_is_a_layer() -> None:
    figure = draw_shared_memory([simulated_run()], "two")
    bottom, top, over, budget = stair_tops(figure)
    assert (bottom, top, over, budget) == (3.0, 5.0, 5.0, 5.0)
    lower, upper = (patch.get_data() for patch in figure.axes[0].patches[:2])
    assert upper.baseline.tolist() == lower.values.tolist()
    values = figure.axes[0].patches[3].get_data().values
    assert set(values.tolist()) == {5.0, 4.0}  # lowered on the way


def test_each_policy_has_a_panel_on_the_same_axes() -> None:
    figure = draw_shared_memory([simulated_run("temporal"), simulated_run("zico", against=0.25)], "two: V100")
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["temporal", "zico"]
    assert first.get_title(loc="right") == "peak 5.00 GiB, 1.00 GiB over"
    assert second.get_title(loc="right") == "2.00x temporal, peak 5.00 GiB, 1.00 GiB over"
    assert (first.get_xlim(), first.get_ylim()) == (second.get_xlim(), second.get_ylim())
    assert second.get_xlabel() == "Time (ms)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "budget"]


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_the_same_run_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        save_shared_memory([simulated_run()], "two", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def busy(iterations: int) -> SimulatedRun:
    entries = (JobArrived(0, "a"), *(IterationEnded(10 * MS * i, "a", 10 * MS) for i in range(1, iterations + 1)))
    run = replace(outcome("temporal", entries), end_ns=10 * MS * iterations)
    metrics = metrics_of(entries, [job("a", iterations=None)], run.end_ns)
    return SimulatedRun(run, replace(simulated_run().row, metrics=metrics))


def test_a_long_run_gets_a_close_up() -> None:
    assert len(draw_shared_memory([busy(10)], "short").axes) == 1
    axes = draw_shared_memory([busy(100)], "long").axes
    assert len(axes) == 2
    assert axes[1].get_xlabel() == "Close-up: time from 0.47 s on (ms)"


def test_the_close_up_shows_the_time_when_most_jobs_are_present() -> None:
    entries = [
        JobArrived(0, "a"),
        *(IterationEnded(MS * i, "a", MS) for i in range(1, 1001)),
        JobArrived(900 * MS, "b"),
    ]
    metrics = metrics_of(entries, [job("a", iterations=None, solo_ns=MS), job("b", iterations=None)], 1000 * MS)
    assert close_up([metrics.jobs]) == Window(947 * MS, 953 * MS)
    assert close_up([]) is None


def test_copies_share_a_colour_if_jobs_are_many() -> None:
    jobs = [*(job(f"small-{i}") for i in range(1, 12)), job("large", solo_ns=7)]
    run = outcome()
    run = replace(run, memory={each.name: run.total for each in jobs}, entries=())
    row = replace(simulated_run().row, metrics=metrics_of([], jobs, run.end_ns))
    figure = draw_shared_memory([SimulatedRun(run, row)], "many")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["11 x small", "large", "budget"]
    drawn = [patch.get_facecolor() for patch in figure.axes[0].patches[:12]]
    assert drawn[0] == drawn[2] != drawn[1]
    assert len(COLOURS) < 12


def test_sampling_keeps_a_peak_between_two_steps() -> None:
    total = series((0, 1), (55, 100), (56, 1), (90, 7))
    edges, at_ns = sample(total, Window(0, 100), 4)
    assert edges.tolist() == [0, 25, 50, 75, 100]
    assert level_at(total, at_ns).tolist() == [1, 1, 100, 7]


def test_no_bytes_are_held_before_the_first_change() -> None:
    assert level_at(series((10, 5), (20, 0)), np.array([0, 10, 15, 20])).tolist() == [0, 5, 5, 0]
    assert level_at(series(), np.array([0, 1])).tolist() == [0, 0]


def test_the_budget_over_time_starts_at_zero_and_has_every_change() -> None:
    budget = budget_over_time(5 * GIB, ENTRIES)
    assert (budget.at_ns.tolist(), budget.held_bytes.tolist()) == ([0, 8 * MS], [5 * GIB, 4 * GIB])
