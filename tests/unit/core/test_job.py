"""A job and the states it may be in."""

from __future__ import annotations

import itertools

import pytest

from builders import training_trace
from neaptide.core.control.job import LEGAL, DisplayState, Job, JobKind, JobState, display_state

QUEUED, READY, RUNNING, SUSPENDED, DONE, FAILED = JobState
TRACE = training_trace()

MOVES = {
    (QUEUED, READY),  # admitted
    (READY, RUNNING),
    (RUNNING, READY),
    (READY, DONE),
    (RUNNING, DONE),
    (READY, SUSPENDED),
    (RUNNING, SUSPENDED),
    (SUSPENDED, READY),
    (SUSPENDED, RUNNING),
    (QUEUED, FAILED),
    (READY, FAILED),
    (RUNNING, FAILED),
    (SUSPENDED, FAILED),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobState, repeat=2)))
def test_the_table_says_which_moves_are_legal(before: JobState, after: JobState) -> None:
    assert (after in LEGAL[before]) == ((before, after) in MOVES)


def test_the_table_covers_every_state_and_is_read_only() -> None:
    assert set(LEGAL) == set(JobState)
    with pytest.raises(TypeError):
        LEGAL[DONE] = frozenset(JobState)  # type: ignore[index]


def test_an_ended_job_stays_ended_and_every_other_job_can_fail() -> None:
    for state in JobState:
        assert state.ended == (not LEGAL[state]) == (state in (DONE, FAILED))
        assert state.ended or FAILED in LEGAL[state]


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_of_the_ledger_is_shown_by_its_name_unless_the_job_is_evicted_or_unresponsive(
    state: JobState,
) -> None:
    assert display_state(state) == state.value
    assert display_state(state).ended == state.ended
    assert display_state(state, evicted=True) is DisplayState.EVICTED
    assert display_state(state, evicted=True, unresponsive=True) is DisplayState.STOPPED


def test_by_default_a_job_trains_until_it_is_stopped() -> None:
    plain = Job(name="vgg", trace=TRACE)
    assert plain == Job(
        name="vgg",
        trace=TRACE,
        kind=JobKind.TRAINING,
        iterations=None,
        priority=0,
        deadline_seconds=None,
    )


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"name": ""}, "^a job needs a name$"),
        ({"iterations": 0}, "^job vgg: iterations must be at least 1, not 0$"),
        ({"iterations": -3}, "^job vgg: iterations must be at least 1, not -3$"),
        ({"deadline_seconds": 0.0}, r"^job vgg: the deadline must be positive, not 0\.0$"),
        ({"deadline_seconds": -1.0}, r"^job vgg: the deadline must be positive, not -1\.0$"),
        ({"deadline_seconds": float("nan")}, "^job vgg: the deadline must be positive, not nan$"),
    ],
)
def test_a_job_with_impossible_facts_is_refused(facts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Job(**{"name": "vgg", "trace": TRACE, **facts})  # type: ignore[arg-type]
