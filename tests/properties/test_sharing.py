"""What Gandiva, AntMan, Herald and Salus promise for any jobs: training, serving, priorities, small budgets."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.control.actions import Resume, Suspend
from neaptide.core.control.controller import Decided, Refused
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted, JobResumed, JobStalled, JobSuspended
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.policies import POLICIES
from neaptide.policies.salus import Order, Salus
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB, tide

V100 = find_device("V100")
LANES = ["salus-pack", "salus-srtf", "salus-fair", "salus-round-robin", "salus-fifo"]
NAMES = [*LANES, "gandiva", "antman", "herald"]


@st.composite
def submissions(draw: st.DrawFn, number: int) -> Submission:
    inference = draw(st.booleans())
    trace = tide(
        ops=draw(st.integers(3, 30)),
        seconds=draw(st.integers(2, 60)) / 1000,
        persistent=draw(st.integers(1, 200)) * MIB,
        ephemeral=draw(st.integers(1, 900)) * MIB,
        fill=draw(st.sampled_from([0.2, 0.6, 1.0])),
        batch=draw(st.integers(1, 4)),
        inference=inference,
    )
    arrives_ns = draw(st.integers(0, 100)) * 1_000_000
    job = Job(
        name=f"job{number}",
        trace=trace,
        kind=JobKind.INFERENCE if inference else JobKind.TRAINING,
        iterations=None if inference else draw(st.integers(1, 8)),
        priority=draw(st.integers(0, 1)),
        deadline_seconds=draw(st.sampled_from([None, 0.05, 0.5])) if inference else None,
    )
    gaps = draw(st.lists(st.integers(0, 80), min_size=1, max_size=8)) if inference else []
    return Submission(job, arrives_ns, tuple(arrives_ns + sum(gaps[: n + 1]) * 1_000_000 for n in range(len(gaps))))


@st.composite
def training(draw: st.DrawFn) -> Trace:
    return tide(
        ops=draw(st.integers(3, 30)),
        seconds=draw(st.integers(2, 60)) / 1000,
        persistent=draw(st.integers(1, 200)) * MIB,
        ephemeral=draw(st.integers(1, 900)) * MIB,
        fill=draw(st.sampled_from([0.2, 0.6, 1.0])),
    )


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Submission], int]:
    """Up to five jobs, and a budget between the largest peak and the sum of all."""
    jobs = [draw(submissions(number)) for number in range(draw(st.integers(1, 5)))]
    peaks = [Profile.of(each.job.trace).peak_bytes for each in jobs]
    return jobs, max(peaks) + (sum(peaks) - max(peaks)) * draw(st.integers(0, 8)) // 8


def log_of(outcome: Outcome) -> bytes:
    return b"\n".join(msgspec.json.encode(entry) for entry in outcome.entries)


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes())
@settings(max_examples=25)
def test_every_job_ends_within_the_budget_and_every_sample_is_served(
    name: str, scene: tuple[list[Submission], int]
) -> None:
    jobs, budget_bytes = scene
    outcome = simulate(jobs, V100, budget_bytes, POLICIES.make(name))
    assert {e.job for e in outcome.entries if isinstance(e, JobEnded)} == {each.job.name for each in jobs}
    assert outcome.over_budget_bytes == 0
    served = sum(len(e.arrivals_ns) for e in outcome.entries if isinstance(e, IterationEnded))
    assert served == sum(len(each.requests_ns) for each in jobs)
    assert not [e for e in outcome.entries if isinstance(e, Refused)]


@pytest.mark.parametrize("name", ["salus-pack", "salus-fair", "salus-round-robin", "salus-fifo"])
@given(scene=scenes())
@settings(max_examples=25)
def test_in_a_safe_lane_no_iteration_ever_waits_for_memory(name: str, scene: tuple[list[Submission], int]) -> None:
    jobs, budget_bytes = scene
    moving: set[str] = set()  # idle servers that make way or come back: an iteration waits for these bytes only
    for entry in simulate(jobs, V100, budget_bytes, POLICIES.make(name)).entries:
        if isinstance(entry, Decided) and isinstance(entry.action, (Suspend, Resume)):
            moving.add(entry.action.job)
        elif isinstance(entry, (JobSuspended, JobResumed)):
            moving.discard(entry.job)
        assert not isinstance(entry, JobEvicted)
        assert moving or not isinstance(entry, JobStalled)


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes())
@settings(max_examples=5)
def test_the_same_scene_gives_the_same_log(name: str, scene: tuple[list[Submission], int]) -> None:
    jobs, budget_bytes = scene
    first, again = (simulate(jobs, V100, budget_bytes, POLICIES.make(name)) for _ in range(2))
    assert log_of(first) == log_of(again)


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes(), share=st.integers(0, 8), at_ms=st.integers(1, 150), back_ms=st.integers(1, 300))
@settings(max_examples=25)
def test_every_job_ends_when_the_budget_shrinks_and_grows_again(
    name: str, scene: tuple[list[Submission], int], share: int, at_ms: int, back_ms: int
) -> None:
    jobs, budget_bytes = scene
    least = max(Profile.of(each.job.trace).peak_bytes for each in jobs)
    smaller = least + (budget_bytes - least) * share // 8
    changes = [(at_ms * 1_000_000, smaller), ((at_ms + back_ms) * 1_000_000, budget_bytes)]
    outcome = simulate(jobs, V100, budget_bytes, POLICIES.make(name), budget_changes=changes)
    assert {e.job for e in outcome.entries if isinstance(e, JobEnded)} == {each.job.name for each in jobs}


@st.composite
def restless_scenes(draw: st.DrawFn) -> tuple[list[Submission], int, list[tuple[int, int]]]:
    """A scene whose budget changes up to four times, also to less than a job needs; in the end it is enough for any."""
    jobs, budget_bytes = draw(scenes())
    peaks = [Profile.of(each.job.trace).peak_bytes for each in jobs]
    low, enough, high = max(peaks) // 2, max(peaks), sum(peaks)
    gaps = draw(st.lists(st.integers(1, 120), min_size=1, max_size=4))
    amounts = [low + (high - low) * draw(st.integers(0, 8)) // 8 for _ in gaps[1:]]
    amounts.append(enough + (high - enough) * draw(st.sampled_from([0, 0, 1, 4, 8])) // 8)
    return jobs, budget_bytes, [(sum(gaps[: n + 1]) * 1_000_000, amount) for n, amount in enumerate(amounts)]


@pytest.mark.parametrize("name", [*NAMES, "zico", "neaptide"])
@given(scene=restless_scenes())
@settings(max_examples=40)
def test_every_job_ends_however_the_budget_changes(
    name: str, scene: tuple[list[Submission], int, list[tuple[int, int]]]
) -> None:
    jobs, budget_bytes, changes = scene
    outcome = simulate(jobs, V100, budget_bytes, POLICIES.make(name), budget_changes=changes)
    assert {e.job for e in outcome.entries if isinstance(e, JobEnded)} == {each.job.name for each in jobs}


IMPATIENT = [Salus(order, short_ns=50_000_000) for order in Order if order is not Order.FIFO]


@pytest.mark.parametrize("policy", [*IMPATIENT, POLICIES.make("neaptide")], ids=lambda policy: policy.name)
@given(scene=restless_scenes(), endless=training(), arrives_ms=st.integers(0, 100))
@settings(max_examples=20)
def test_every_job_that_has_an_end_ends_beside_an_endless_one_however_the_budget_changes(
    policy: Policy, scene: tuple[list[Submission], int, list[tuple[int, int]]], endless: Trace, arrives_ms: int
) -> None:
    jobs, budget_bytes, changes = scene
    equal = [Submission(replace(each.job, priority=0), each.arrives_ns, each.requests_ns) for each in jobs]
    without_end = Submission(Job(name="endless", trace=endless), arrives_ms * 1_000_000)
    outcome = simulate([*equal, without_end], V100, budget_bytes, policy, budget_changes=changes, until_ns=30 * 10**9)
    assert {e.job for e in outcome.entries if isinstance(e, JobEnded)} == {each.job.name for each in jobs}
