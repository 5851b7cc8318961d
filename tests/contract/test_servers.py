"""Servers on one device: 42 that share one lane (Salus, MLSys'20), and some that do not fit together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from contract.engines import ENGINES, engines
from contract.world import LEASE, MS, Engine, Scene, Tide, rise_and_fall
from neaptide.core.control.actions import Start
from neaptide.core.control.controller import Decided, Entry
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import JobKind
from neaptide.policies import POLICIES

SERVERS, REQUESTS, LARGEST = 42, 3, 4
LATER = 3.0  # seconds


@engines(soft="it takes 42 processes, and the daemon and the board are the same")
def test_42_servers_share_one_lane_of_the_bytes_that_the_largest_request_needs(engine: Engine) -> None:
    tides = [
        Tide(
            name=f"server{index}",
            steps=rise_and_fall(1 + index % LARGEST, 4 * MS),
            kind=JobKind.INFERENCE,
            requests=tuple(n * 400 * MS for n in range(REQUESTS)),
        )
        for index in range(SERVERS)
    ]
    budget = SERVERS + LARGEST + 1  # what all keep, and what one request needs; one lease more for the chunks
    assert sum(tide.trace.peak_bytes for tide in tides) > 3 * budget * LEASE
    facts = engine.run(Scene(tides=tides, budget=budget, policy=POLICIES.make("salus-fair")))
    facts.check_all_ended()
    assert max(len(view.admitted) for view in facts.views) == SERVERS
    # One lane: an iteration starts when the one before it has ended.
    ends = [isinstance(entry, IterationEnded) for entry in facts.entries if _is_turn(entry)]
    assert len(ends) == 2 * SERVERS * REQUESTS
    assert all(before is not after for before, after in pairwise(ends))


def _is_turn(entry: Entry) -> bool:
    return isinstance(entry, IterationEnded) or (isinstance(entry, Decided) and isinstance(entry.action, Start))


KEEPS_ITS_PLACE = ("fifo", "spatial", "spatial-paged", "mps", "mig", "gslice")  # by definition, until it ends


def each_policy_on_each_engine() -> list[object]:
    """Live jobs under all policies but our own are left to the whole suite: a case takes seconds."""
    policies = sorted(set(POLICIES) - set(KEEPS_ITS_PLACE))
    live = {policy: [pytest.mark.networks] for policy in policies if policy != "neaptide"}
    return [
        pytest.param(engine, policy, marks=live.get(policy, []) if engine == "soft" else [])
        for engine in ENGINES
        for policy in policies
    ]


@pytest.mark.parametrize(("engine", "policy"), each_policy_on_each_engine(), indirect=["engine"])
def test_an_idle_server_makes_way_for_one_with_a_request_and_comes_back_for_its_own(
    engine: Engine, policy: str
) -> None:
    # Two of three fit. The first two get a request each, and the next one only long after that of the third.
    asked = {"first": (0.0, LATER), "second": (0.0, LATER), "third": (0.0,)}
    tides = [
        Tide(
            name=name,
            steps=rise_and_fall(1, 4 * MS),
            persistent=4,
            kind=JobKind.INFERENCE,
            requests=requests,
            waits_for_requests=True,
        )
        for name, requests in asked.items()
    ]
    facts = engine.run(Scene(tides=tides, budget=2 * 4 + 2, policy=POLICIES.make(policy)))
    facts.check_all_ended()
    served = [event.job for event in facts.events(IterationEnded)]
    assert "third" in served[:3]
