"""No policy asks for what the ledger refuses: random jobs, servers and budgets in the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.control.controller import Refused
from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import find_device
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.policies import POLICIES
from neaptide.policies.files import find_policy
from neaptide.policies.gandiva import Gandiva
from neaptide.simulation import Submission, simulate
from tides import MIB, tide

DEVICE = find_device("V100")
MS = 1_000_000
END_NS = 1000 * MS


@st.composite
def traces(draw: st.DrawFn, inference: bool) -> Trace:
    return tide(
        ops=draw(st.integers(3, 30)),
        seconds=draw(st.integers(2, 60)) / 1000,
        persistent=draw(st.integers(1, 400)) * MIB,
        ephemeral=draw(st.integers(1, 300 if inference else 1500)) * MIB,
        fill=draw(st.sampled_from([0.2, 0.4, 0.7, 1.0])),
        batch=draw(st.sampled_from([1, 4])),
        inference=inference,
    )


@st.composite
def jobs(draw: st.DrawFn, name: str, most_priority: int, plans: bool) -> Submission:
    serves = draw(st.booleans())
    trace = draw(traces(serves))
    job = Job(name=name, trace=trace, priority=draw(st.integers(0, most_priority)))
    if serves:
        requests_ms = sorted(draw(st.lists(st.integers(0, 900), min_size=1, max_size=8)))
        slo = draw(st.sampled_from([None, 0.05, 0.2]))
        job = replace(job, kind=JobKind.INFERENCE, deadline_seconds=slo)
        return Submission(job, requests_ns=tuple(at * MS for at in requests_ms))
    if plans:
        smaller = tide(
            ops=len(trace.ops),
            seconds=trace.seconds * 1.1,
            persistent=trace.persistent_bytes,
            ephemeral=trace.ephemeral_bytes // 2,
            batch=trace.batch,
        )
        job = replace(job, alternatives=(smaller,))
    job = replace(job, iterations=draw(st.one_of(st.none(), st.integers(1, 30))))
    return Submission(job, arrives_ns=draw(st.sampled_from([0, 5, 40, 300])) * MS)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Submission], int, list[tuple[int, int]]]:
    """Jobs of all kinds, a budget between the largest peak and the sum of all, and changes of it, also below that."""
    priority, plans = draw(st.sampled_from([0, 2])), draw(st.booleans())
    count = draw(st.integers(2, 5))
    submissions = [draw(jobs(f"job{index}", priority, plans)) for index in range(count)]
    peaks = [Profile.of(each.job.trace).peak_bytes for each in submissions]
    budgets = [max(peaks) + (sum(peaks) - max(peaks)) * tenth // 10 for tenth in range(11)]
    change = st.tuples(st.integers(1, 900), st.sampled_from([max(peaks) * 2 // 3, *budgets]))
    changes = sorted(draw(st.lists(change, max_size=4, unique_by=lambda change: change[0])))
    return submissions, draw(st.sampled_from(budgets)), [(at * MS, to) for at, to in changes]


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "spatial-paged"])
@given(scene=scenes())
@settings(max_examples=60)
def test_no_action_of_a_policy_is_refused(
    name: str, scene: tuple[list[Submission], int, list[tuple[int, int]]]
) -> None:
    submissions, budget_bytes, changes = scene
    policy = Gandiva(slice_ns=20 * MS) if name == "gandiva" else find_policy(name)
    outcome = simulate(submissions, DEVICE, budget_bytes, policy, budget_changes=changes, until_ns=END_NS)
    assert [entry for entry in outcome.entries if isinstance(entry, Refused)] == []
