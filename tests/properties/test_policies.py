"""What policies promise for any jobs: random tides in the simulator, which also launch ahead."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.control.controller import Refused
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted
from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import DeviceSpec, find_device
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.policies.files import find_policy
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB, tide

DEVICE = find_device("V100")
SAFE = ["temporal", "zico", "ticktock", "salus-pack", "salus-srtf", "salus-fair", "salus-fifo", "neaptide"]
FEW = settings(max_examples=30)


@st.composite
def training_tides(draw: st.DrawFn) -> Trace:
    return tide(
        ops=draw(st.integers(3, 60)),
        seconds=draw(st.integers(2, 60)) / 1000,
        persistent=draw(st.integers(1, 200)) * MIB,
        ephemeral=draw(st.integers(1, 1500)) * MIB,
        fill=draw(st.sampled_from([0.2, 0.4, 0.7, 1.0])),
    )


@st.composite
def crowds(draw: st.DrawFn, least: int = 2, most: int = 3) -> tuple[list[Submission], int]:
    """Some training jobs, maybe two alike, and a budget between what the ledger asks for and all their peaks."""
    traces = draw(st.lists(training_tides(), min_size=least, max_size=most))
    if draw(st.booleans()):
        traces[-1] = traces[0]
    submissions = [
        Submission(
            Job(name=f"job{index}", trace=trace, iterations=draw(st.integers(1, 8))),
            arrives_ns=draw(st.sampled_from([0, 0, 5_000_000, 40_000_000])),
        )
        for index, trace in enumerate(traces)
    ]
    profiles = [Profile.of(trace) for trace in traces]
    least_bytes = max(profile.peak_bytes for profile in profiles)
    all_bytes = sum(profile.peak_bytes for profile in profiles)
    return submissions, least_bytes + (all_bytes - least_bytes) * draw(st.integers(0, 10)) // 10


def log_of(outcome: Outcome) -> bytes:
    return b"\n".join(msgspec.json.encode(entry) for entry in outcome.entries)


def ended(outcome: Outcome) -> set[str]:
    return {entry.job for entry in outcome.entries if isinstance(entry, JobEnded)}


@pytest.mark.parametrize("name", SAFE)
@given(crowd=crowds())
@FEW
def test_the_budget_is_never_exceeded_and_every_job_ends(name: str, crowd: tuple[list[Submission], int]) -> None:
    submissions, budget_bytes = crowd
    outcome = simulate(submissions, DEVICE, budget_bytes, find_policy(name))
    assert outcome.over_budget_bytes == 0
    assert outcome.peak_bytes <= budget_bytes
    assert ended(outcome) == {each.job.name for each in submissions}
    for each in submissions:
        done = [e for e in outcome.entries if isinstance(e, IterationEnded) and e.job == each.job.name]
        assert len(done) == each.job.iterations


@pytest.mark.parametrize("name", ["zico", "neaptide"])
@given(crowd=crowds())
@FEW
def test_no_action_is_refused_and_no_job_is_evicted(name: str, crowd: tuple[list[Submission], int]) -> None:
    outcome = simulate(*_scene(crowd), find_policy(name))
    assert not [entry for entry in outcome.entries if isinstance(entry, (Refused, JobEvicted))]


@pytest.mark.parametrize("name", SAFE)
@given(crowd=crowds())
@settings(max_examples=5)
def test_the_same_jobs_give_the_same_log(name: str, crowd: tuple[list[Submission], int]) -> None:
    first = simulate(*_scene(crowd), find_policy(name))
    again = simulate(*_scene(crowd), find_policy(name))
    assert log_of(first) == log_of(again)


@pytest.mark.parametrize("name", ["zico", "neaptide"])
@given(crowd=crowds(2, 2))
@settings(max_examples=60)
def test_two_jobs_end_no_later_than_when_they_take_turns(name: str, crowd: tuple[list[Submission], int]) -> None:
    submissions, budget_bytes = crowd
    together = [Submission(each.job) for each in submissions]
    profiles = [Profile.of(each.job.trace) for each in submissions]
    both_inside = sum(each.persistent_bytes for each in profiles) + max(each.ephemeral_bytes for each in profiles)
    budget_bytes = max(budget_bytes, both_inside)  # otherwise one job is evicted for the other, which takes time
    by_turns = simulate(together, DEVICE, budget_bytes, find_policy("temporal"))
    assert simulate(together, DEVICE, budget_bytes, find_policy(name)).end_ns <= by_turns.end_ns * 1.001


@pytest.mark.parametrize("name", ["zico", "neaptide"])
@given(crowd=crowds(), shrink=st.integers(0, 10), at_ms=st.integers(1, 60), back_ms=st.integers(1, 200))
@FEW
def test_every_job_ends_when_the_budget_shrinks_and_grows_again(
    name: str, crowd: tuple[list[Submission], int], shrink: int, at_ms: int, back_ms: int
) -> None:
    submissions, budget_bytes = crowd
    least = max(Profile.of(each.job.trace).peak_bytes for each in submissions)
    changes = [
        (at_ms * 1_000_000, least + (budget_bytes - least) * shrink // 10),
        ((at_ms + back_ms) * 1_000_000, budget_bytes),
    ]
    outcome = simulate(submissions, DEVICE, budget_bytes, find_policy(name), budget_changes=changes)
    assert ended(outcome) == {each.job.name for each in submissions}


@given(crowd=crowds(2, 3))
@FEW
def test_neaptide_keeps_the_budget_when_jobs_come_with_several_plans(crowd: tuple[list[Submission], int]) -> None:
    submissions, budget_bytes = crowd
    planned = [
        replace(each, job=replace(each.job, alternatives=(lowered(each.job.trace, index),)))
        for index, each in enumerate(submissions)
    ]
    outcome = simulate(planned, DEVICE, budget_bytes, find_policy("neaptide"))
    assert outcome.over_budget_bytes == 0
    assert ended(outcome) == {each.job.name for each in submissions}
    assert not [entry for entry in outcome.entries if isinstance(entry, Refused)]


def lowered(trace: Trace, index: int) -> Trace:
    """The same job in half the memory and a little more time."""
    return tide(
        ops=len(trace.ops),
        seconds=trace.seconds * (1.05 + index / 20),
        persistent=trace.persistent_bytes,
        ephemeral=trace.ephemeral_bytes // 2,
        fill=float(trace.ops.fill[0]),
    )


@given(crowd=crowds(1, 2), gap_ms=st.integers(5, 60), samples=st.integers(1, 20))
@FEW
def test_neaptide_serves_every_sample_in_time_when_the_device_can(
    crowd: tuple[list[Submission], int], gap_ms: int, samples: int
) -> None:
    serving = tide(ops=20, seconds=0.004, persistent=10 * MIB, ephemeral=10 * MIB, inference=True, batch=4)
    bound = Job(name="serve", trace=serving, kind=JobKind.INFERENCE, deadline_seconds=0.2)
    requests_ns = tuple(index * gap_ms * 1_000_000 for index in range(samples))
    submissions, budget_bytes = crowd
    outcome = simulate(
        [Submission(bound, requests_ns=requests_ns), *submissions],
        DEVICE,
        budget_bytes + 20 * MIB,
        find_policy("neaptide"),
    )
    assert outcome.over_budget_bytes == 0
    assert ended(outcome) == {"serve", *(each.job.name for each in submissions)}
    served = [e for e in outcome.entries if isinstance(e, IterationEnded) and e.job == "serve"]
    assert sum(len(e.arrivals_ns) for e in served) == samples
    assert max(e.at_ns - arrived_ns for e in served for arrived_ns in e.arrivals_ns) <= 200_000_000


def _scene(crowd: tuple[list[Submission], int]) -> tuple[list[Submission], DeviceSpec, int]:
    submissions, budget_bytes = crowd
    return submissions, DEVICE, budget_bytes
