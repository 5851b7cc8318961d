"""Jobs that share a device never do much worse than taking turns, and priorities are shares."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neaptide.core.control.events import IterationEnded, JobEvicted
from neaptide.core.control.job import Job
from neaptide.core.device import find_device
from neaptide.core.rules.shares import weight
from neaptide.core.rules.turns import ITERATIONS
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.policies import POLICIES
from neaptide.policies.gandiva import Gandiva
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB, tide

V100 = find_device("V100")
SECOND = 10**9
# A job has its place until it ends.
WHOLE_JOBS = {"fifo", "spatial", "spatial-paged", "salus-fifo", "mps", "mig", "gslice"}
TURNS = sorted(set(POLICIES) - WHOLE_JOBS)
WEIGHED = sorted(name for name in POLICIES if name in ("neaptide", "herald") or name.startswith("salus-"))


@st.composite
def trainings(draw: st.DrawFn) -> Trace:
    return tide(
        ops=draw(st.integers(3, 12)),
        seconds=draw(st.integers(10, 40)) / 1000,
        persistent=draw(st.integers(1, 600)) * MIB,
        ephemeral=draw(st.integers(1, 900)) * MIB,
        fill=draw(st.sampled_from([0.3, 0.7, 1.0])),
    )


def done(outcome: Outcome, name: str) -> int:
    return sum(isinstance(e, IterationEnded) and e.job == name for e in outcome.entries)


# What stays of both fits beside what either needs more, but their peaks do not fit together.
_EITHER = (
    tide(ops=8, seconds=0.028, persistent=224 * MIB, ephemeral=517 * MIB, fill=0.3),
    tide(ops=7, seconds=0.014, persistent=98 * MIB, ephemeral=634 * MIB, fill=0.7),
)


@pytest.mark.parametrize("name", TURNS)
@example(pair=_EITHER, part=8)
@given(pair=st.tuples(trainings(), trainings()), part=st.integers(0, 11))
@settings(max_examples=6)
def test_two_endless_jobs_both_go_on_and_do_as_much_as_in_turns_at_every_budget_in_which_each_can_run(
    name: str, pair: tuple[Trace, Trace], part: int
) -> None:
    profiles = [Profile.of(trace) for trace in pair]
    peaks = [profile.peak_bytes for profile in profiles]
    budget_bytes = max(peaks) + (sum(peaks) - max(peaks)) * part // 11
    policy = Gandiva(slice_ns=3 * SECOND) if name == "gandiva" else POLICIES.make(name)
    lasts_ns = 10 * ITERATIONS * max(profile.solo_ns for profile in profiles)  # ten turns
    jobs = [Submission(Job(name=str(index), trace=trace)) for index, trace in enumerate(pair)]
    outcome = simulate(jobs, V100, budget_bytes, policy, until_ns=lasts_ns)
    work_ns = [done(outcome, str(index)) * profile.solo_ns for index, profile in enumerate(profiles)]
    assert sum(work_ns) >= 0.9 * lasts_ns
    assert min(work_ns) >= 0.1 * lasts_ns
    assert outcome.over_budget_bytes == 0
    assert sum(isinstance(e, JobEvicted) for e in outcome.entries) <= 2


@given(pair=st.tuples(trainings(), trainings()), part=st.integers(0, 11))
@settings(max_examples=25)
def test_under_antman_a_guaranteed_job_is_nearly_as_fast_as_alone_and_one_with_room_for_what_stays_goes_on_beside_it(
    pair: tuple[Trace, Trace], part: int
) -> None:
    profiles = [Profile.of(trace) for trace in pair]
    peaks = [profile.peak_bytes for profile in profiles]
    budget_bytes = max(peaks) + (sum(peaks) - max(peaks)) * part // 11
    lasts_ns = 10 * ITERATIONS * max(profile.solo_ns for profile in profiles)
    jobs = [Submission(Job(name=str(index), trace=trace, priority=1 - index)) for index, trace in enumerate(pair)]
    outcome = simulate(jobs, V100, budget_bytes, POLICIES.make("antman"), until_ns=lasts_ns)
    assert done(outcome, "0") * profiles[0].solo_ns >= 0.9 * lasts_ns
    assert (done(outcome, "1") > 0) == (peaks[0] + profiles[1].persistent_bytes <= budget_bytes)
    assert outcome.over_budget_bytes == 0
    assert not [e for e in outcome.entries if isinstance(e, JobEvicted)]


def three(fill: float, ephemeral: int = 100, **facts: object) -> list[Submission]:
    """Three equal jobs of priorities 3, 2 and 1."""
    trace = tide("equal", 20, 0.02, 50 * MIB, ephemeral * MIB, fill)
    return [Submission(Job(name=str(priority), trace=trace, priority=priority, **facts)) for priority in (3, 2, 1)]  # type: ignore[arg-type]


def check_shares(outcome: Outcome) -> None:
    counts = [done(outcome, str(priority)) for priority in (3, 2, 1)]
    weights = [weight(priority) for priority in (3, 2, 1)]
    for count, each in zip(counts, weights, strict=True):
        assert count / sum(counts) == pytest.approx(each / sum(weights), rel=0.2), counts


@pytest.mark.parametrize("name", sorted(set(WEIGHED) - WHOLE_JOBS))
@pytest.mark.parametrize("fill", [0.6, 1.0])
def test_three_equal_jobs_with_room_for_all_share_the_device_by_their_weights(name: str, fill: float) -> None:
    outcome = simulate(three(fill), V100, 4000 * MIB, POLICIES.make(name), until_ns=10 * SECOND)
    check_shares(outcome)
    alone = 10 / 0.02
    assert sum(done(outcome, str(priority)) for priority in (3, 2, 1)) > 0.9 * alone


@pytest.mark.parametrize("name", sorted(set(WEIGHED) - WHOLE_JOBS))
def test_three_equal_jobs_of_which_one_fits_share_the_device_by_their_weights(name: str) -> None:
    outcome = simulate(three(1.0), V100, 160 * MIB, POLICIES.make(name), until_ns=60 * SECOND)
    check_shares(outcome)
    assert sum(done(outcome, str(priority)) for priority in (3, 2, 1)) > 0.9 * 60 / 0.02


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_no_job_starves_behind_a_higher_priority_where_there_is_room_for_all(name: str) -> None:
    if name in ("fifo", "salus-fifo", "gandiva", "mig"):
        pytest.skip("one job, or two, at a time by definition")
    outcome = simulate(three(0.5), V100, 4000 * MIB, POLICIES.make(name), until_ns=5 * SECOND)
    assert min(done(outcome, str(priority)) for priority in (3, 2, 1)) >= 10
