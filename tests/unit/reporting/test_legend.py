"""The legend of the figure of shared memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.reporting.figures.colours import COLOURS
from neaptide.reporting.figures.shared_memory import draw_shared_memory
from neaptide.reporting.logs.comparison import SimulatedRun
from neaptide.reporting.logs.metrics import metrics_of
from outcomes import job, outcome, simulated_run


@pytest.mark.parametrize("kinds", [len(COLOURS), len(COLOURS) + 1])
def test_kinds_of_jobs_are_named_as_long_as_each_has_a_colour_of_its_own(kinds: int) -> None:
    jobs = [job(f"{kind}-{copy}", solo_ns=100 + kind) for kind in range(kinds) for copy in (1, 2)]
    run = outcome()
    run = replace(run, memory={each.name: run.total for each in jobs}, entries=())
    row = replace(simulated_run().row, metrics=metrics_of([], jobs, run.end_ns))
    figure = draw_shared_memory([SimulatedRun(run, row)], "many")
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ([f"2 x {kind}" for kind in range(kinds)] if kinds == len(COLOURS) else []) + ["budget"]
