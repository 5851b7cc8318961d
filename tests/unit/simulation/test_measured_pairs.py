"""Jobs side by side, against published measurements on a V100 under MPS (docs/fidelity.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from neaptide.simulation import Contention

REPOSITORY = Path(__file__).parents[3]
# Networks that are quickly estimated; `neaptide bench contention` uses all networks.
QUICK = ("ResNet-18", "LM", "Recommendation")
GOAL = 0.12


@pytest.fixture(scope="module")
def contention() -> Iterator[ModuleType]:
    """The benchmark; the tests are skipped where its measurements are missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPOSITORY))
        from benchmarks import contention

        try:
            contention.measurements()
        except ValueError as error:
            pytest.skip(str(error))
        yield contention
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_pairs_that_were_not_used_for_the_fit_run_as_fast_as_measured(contention: ModuleType) -> None:
    gavel, folder = contention.gavel, contention.measurements()
    pairs = [
        pair
        for pair in gavel.measured_pairs(folder / "gavel-v100-pairs")
        if not pair.fitted and all(gavel.parsed(job)[0] in QUICK for job in pair.jobs)
    ]
    assert len(pairs) >= 10
    traces = contention.traces_of(pairs, folder)
    measured = np.array([pair.rates for pair in pairs])
    error = np.abs(contention.predict(pairs, traces, Contention()) - measured).mean()
    without_waves = np.abs(contention.predict(pairs, traces, Contention(wave_seconds=0)) - measured).mean()
    assert error <= GOAL
    assert error < without_waves
    assert error < np.abs(1 - measured).mean() / 2
