"""Lanes that a policy sizes: with the bytes at rest of the admitted jobs they fit the budget."""

from __future__ import annotations

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.job import Job
from neaptide.core.control.ledger import Ledger
from neaptide.core.control.refusals import MOST_LANES
from tides import MIB, tide


def test_a_lane_that_does_not_fit_beside_the_bytes_at_rest_and_the_other_lanes_is_refused() -> None:
    ledger = Ledger((Job(name="a", trace=tide("a", persistent=10 * MIB, ephemeral=40 * MIB)),), 100 * MIB)
    ledger.apply(ev.JobArrived(1, "a"))
    ledger.commit(act.Admit("a", 0), 2)
    assert ledger.refusal(act.SizeLane(0, 60 * MIB), 3) is None
    ledger.commit(act.SizeLane(0, 60 * MIB), 3)
    assert ledger.refusal(act.SizeLane(1, 31 * MIB), 4) == "it would need 1.00 MiB more than the budget"
    assert ledger.refusal(act.SizeLane(1, 30 * MIB), 4) is None
    ledger.commit(act.SizeLane(1, 30 * MIB), 4)
    ledger.apply(ev.BudgetChanged(5, 50 * MIB))
    assert ledger.refusal(act.SizeLane(0, 50 * MIB), 6) is None  # a lane may always shrink
    ledger.commit(act.SizeLane(0, 0), 6)
    assert ledger.lanes == {1: 30 * MIB}


def test_there_are_as_many_lanes_as_slots_on_a_board() -> None:
    ledger = Ledger((Job(name="a", trace=tide("a")),), 2000 * MIB)
    ledger.apply(ev.JobArrived(1, "a"))
    assert ledger.refusal(act.SizeLane(MOST_LANES, MIB), 2) is not None
    assert ledger.refusal(act.SizeLane(-1, MIB), 2) is not None
    assert ledger.refusal(act.Admit("a", MOST_LANES), 2) is not None
    assert ledger.refusal(act.Admit("a", MOST_LANES - 1), 2) is None
