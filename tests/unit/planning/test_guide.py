import re
from pathlib import Path
from typing import Any

import pytest

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Planner
from neaptide.planning.planners import liveness
from neaptide.reproductions.networks.layers import network_trace
from neaptide.reproductions.networks.superneurons_networks import alexnet

GUIDE = Path(__file__).parents[3] / "docs" / "writing-a-planner.md"
DEVICE = find_device("K40")


@pytest.fixture(scope="module")
def plan() -> Planner:
    text = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[0]
    assert len(text.splitlines()) <= 40
    found: dict[str, Any] = {}
    exec(text, found)
    planner: Planner = found["plan"]
    return planner


@pytest.fixture(scope="module")
def trace() -> Trace:
    everything = network_trace(alexnet(32), DEVICE)
    return apply(everything, liveness.plan(everything, everything.peak_bytes, DEVICE), DEVICE)


def test_the_guides_example_keeps_its_promise(plan: Planner, trace: Trace) -> None:
    budget_bytes = trace.peak_bytes - trace.ephemeral_bytes // 10
    planned = apply(trace, plan(trace, budget_bytes, DEVICE), DEVICE)
    planned.check()
    assert planned.peak_bytes <= budget_bytes < trace.peak_bytes


def test_the_guides_example_says_how_low_it_can_go(plan: Planner, trace: Trace) -> None:
    with pytest.raises(
        CannotFitError, match=r"longest-idle cannot meet 1\.00 MiB: it reaches .*, and no plan can go below"
    ):
        plan(trace, 1 << 20, DEVICE)
