"""The figure of a trace, and figure files."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from builders import Op, Tensor, make_trace, training_trace
from neaptide.core.traces.trace import Phase
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.figures.files import save_figure
from neaptide.reporting.figures.profile import draw_profile, save_profile

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}


@pytest.mark.parametrize("suffix", STARTS)
def test_every_format_can_be_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"tide{suffix}"
    save_profile(training_trace(), path)
    assert path.read_bytes().startswith(STARTS[suffix])


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_the_same_trace_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        save_profile(training_trace(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end with \.png, \.svg or \.pdf, not 'tide\.gif'"):
        save_profile(training_trace(), tmp_path / "tide.gif")


def test_the_ticks_of_both_axes_are_alike(tmp_path: Path) -> None:
    figures: list[Figure] = []

    def draw() -> Figure:
        figure = Figure()
        figure.add_subplot()
        figures.append(figure)
        return figure

    save_figure(draw, tmp_path / "empty.svg")
    (axes,) = figures[0].axes
    x, y = (axis.get_major_ticks()[0].tick1line for axis in (axes.xaxis, axes.yaxis))
    assert x.get_markersize() == y.get_markersize()
    assert x.get_markeredgewidth() == y.get_markeredgewidth()


def words_of(figure: Figure) -> list[str]:
    axes = figure.axes[0]
    return [text.get_text() for text in axes.texts]


def test_the_figure_names_kinds_phases_persistent_bytes_and_peak() -> None:
    figure = Figure()
    draw_profile(training_trace(), figure.add_subplot())
    axes = figure.axes[0]
    assert {"peak 257 B", "100 B", "forward", "backward"} <= set(words_of(figure))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Time (ms)", "Memory (B)")
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["parameter", "gradient", "input", "activation", "temporary", "persistent"]


@pytest.mark.parametrize(("before", "after", "side"), [(0.0, 9.0, "left"), (5.0, 4.0, "center"), (9.0, 0.5, "right")])
def test_the_word_at_the_peak_stays_inside_the_figure(before: float, after: float, side: str) -> None:
    figure = Figure()
    ops = [Op(seconds=seconds) for seconds in (before, 1.0, after)]
    draw_profile(make_trace(ops, [Tensor(bytes=100, born=1, died=1)]), figure.add_subplot())
    (peak,) = [text for text in figure.axes[0].texts if text.get_text().startswith("peak")]
    assert peak.get_horizontalalignment() == side


@pytest.mark.parametrize(("seconds", "name"), [(0.3, "optimizer"), (0.05, "opt.")])
def test_the_name_of_a_short_optimizer_phase_is_shortened_or_omitted(seconds: float, name: str) -> None:
    figure = Figure()
    phases = {Phase.FORWARD: 0.45, Phase.BACKWARD: 0.5, Phase.OPTIMIZER: seconds}
    draw_profile(make_trace([Op(phase=phase, seconds=share) for phase, share in phases.items()]), figure.add_subplot())
    assert name in words_of(figure)


def test_many_short_phases_are_drawn_without_names() -> None:
    figure = Figure()
    ops = [Op(phase=phase) for phase in [Phase.FORWARD, Phase.BACKWARD] * 40]
    draw_profile(make_trace(ops), figure.add_subplot())
    assert "forward" not in words_of(figure)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e5])
def test_a_trace_of_any_duration_can_be_drawn(seconds: float, tmp_path: Path) -> None:
    save_profile(make_trace([Op(seconds=seconds)]), tmp_path / "x.png")


def test_a_chart_of_many_bars_is_wider(tmp_path: Path) -> None:
    few, many = tmp_path / "few.png", tmp_path / "many.png"
    save_bars(Bars("times", ["a", "b"], {"x": [1, 2]}), few)
    save_bars(Bars("times", [str(index) for index in range(40)], {"x": [1] * 40, "y": [2] * 40}), many)
    assert [imread(path).shape[1] for path in (few, many)] == [840, 1900]  # 4.2 inches, and 0.11 for each bar
