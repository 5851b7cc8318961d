"""A curve drawn with characters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from builders import training_trace
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.trace import Phase
from neaptide.core.units import MIB
from neaptide.reporting.figures.trace_timeline import PhaseSpan, phase_spans
from neaptide.reporting.terminal.curves import NARROWEST, draw_curve

MILLISECOND = 10**6
TIDE = MemoryCurve.of_steps([MILLISECOND] * 10, [MIB * level for level in (2, 3, 4, 5, 6, 5, 4, 3, 2, 1)])
TRAINING = [
    PhaseSpan(Phase.FORWARD, 0.0, 4e-3),
    PhaseSpan(Phase.BACKWARD, 4e-3, 9e-3),
    PhaseSpan(Phase.OPTIMIZER, 9e-3, 10e-3),
]


def draw(
    curve: MemoryCurve = TIDE,
    phases: list[PhaseSpan] = TRAINING,
    persistent: int = 0,
    width: int = 57,
    ascii_only: bool = False,
) -> list[str]:
    return [line.plain for line in draw_curve(curve, phases, persistent, width=width, height=6, ascii_only=ascii_only)]


def test_a_tide_is_drawn_with_blocks() -> None:
    assert draw(persistent=MIB) == [
        "                           ▼ peak 6.00 MiB at 4.00 ms",
        "6 MiB ┤                    █████",
        "      │               ███████████████",
        "4 MiB ┤          █████████████████████████",
        "      │     ███████████████████████████████████",
        "2 MiB ┤█████████████████████████████████████████████",
        "      │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "    0 └┬───────────┬────────────┬────────────┬──────────┬",
        "       0        2.5 ms        5 ms        7.5 ms    10 ms",
        "      ├───── forward ─────┼─────── backward ───────┼ o ─┤",
        "       ▒ persistent  █ ephemeral",
    ]


def test_a_tide_is_drawn_in_ascii() -> None:
    lines = draw(persistent=MIB, ascii_only=True)
    assert all(line.isascii() for line in lines)
    assert lines[1:3] == ["6 MiB +                    #####", "      |               ###############"]
    assert lines[-1] == "       = persistent  # ephemeral"


@pytest.mark.parametrize("width", [NARROWEST, 40, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_given_width(width: int, ascii_only: bool) -> None:
    assert max(cell_len(line) for line in draw(width=width, ascii_only=ascii_only)) <= width


def test_a_drawing_is_never_narrower_than_the_least_width() -> None:
    assert draw(width=3) == draw(width=NARROWEST)


def test_a_peak_of_one_nanosecond_is_drawn() -> None:
    spike = MemoryCurve.of_steps([MILLISECOND, 1, MILLISECOND], [MIB, 6 * MIB, MIB])
    lines = draw(spike, [PhaseSpan(Phase.FORWARD, 0.0, 2e-3)])
    top = lines[1]
    assert top.startswith("6 MiB ┤")
    assert top.count("█") == 1
    assert lines[0].index("▼") == top.index("█")


def test_no_level_is_drawn_lower_than_it_is() -> None:
    barely = MemoryCurve.of_steps([MILLISECOND] * 2, [6 * MIB, 1])
    assert draw(barely, [PhaseSpan(Phase.FORWARD, 0.0, 2e-3)])[-4][-1] == "▁"


def test_a_short_phase_is_named_by_a_letter() -> None:
    phases = [PhaseSpan(Phase.FORWARD, 0.0, 9.99e-3), PhaseSpan(Phase.OPTIMIZER, 9.99e-3, 10e-3)]
    assert draw(phases=phases)[-1].endswith("┼o")


def test_alternating_phases_each_have_a_name() -> None:
    phases = [PhaseSpan(phase, i * 1e-3, (i + 1) * 1e-3) for i, phase in enumerate([Phase.FORWARD, Phase.BACKWARD] * 5)]
    assert draw(phases=phases)[-1] == "      ├ f ─┼ b ─┼ f ─┼ b ─┼ f ─┼ b ─┼ f ─┼ b ─┼ f ─┼ b ─┤"


@pytest.mark.parametrize(("at", "words"), [(0, "▼ peak"), (9, "ms ▼")])
def test_the_words_beside_the_peak_stay_inside_the_drawing(at: int, words: str) -> None:
    curve = MemoryCurve.of_steps([MILLISECOND] * 10, [6 if i == at else 1 for i in range(10)])
    assert words in draw(curve)[0]


def test_a_curve_of_zero_bytes_is_drawn() -> None:
    nothing = MemoryCurve.of_steps([1], [0])
    assert draw(nothing, [PhaseSpan(Phase.FORWARD, 0.0, 1e-9)])[1].endswith("┤")


def test_the_curve_of_a_trace_is_drawn() -> None:
    trace = training_trace()
    lines = draw_curve(trace.curve(), phase_spans(trace), trace.persistent_bytes, width=60, height=8, ascii_only=False)
    assert "peak 257 B at 3.01 ms" in lines[0].plain
