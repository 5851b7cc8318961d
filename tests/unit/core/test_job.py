"""A job and the states it may be in."""

from __future__ import annotations

import itertools

import pytest

from builders import training_trace
from neaptide.core.control.job import LEGAL, Job, JobKind, JobState

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


def job(state: JobState = QUEUED) -> Job:
    return Job(name="vgg", trace=TRACE, iterations=3, priority=2, state=state)


@pytest.mark.parametrize(("before", "after"), sorted(MOVES, key=str))
def test_a_job_may_move(before: JobState, after: JobState) -> None:
    moved = job(before).moved_to(after)
    assert moved.state is after
    assert (moved.name, moved.trace, moved.iterations, moved.priority) == ("vgg", TRACE, 3, 2)


@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in itertools.product(JobState, repeat=2) if pair not in MOVES]
)
def test_a_job_may_not_move_and_says_so(before: JobState, after: JobState) -> None:
    with pytest.raises(ValueError, match=f"^job vgg cannot go from {before.value} to {after.value}$"):
        job(before).moved_to(after)


def test_moving_leaves_the_job_that_moved_as_it_was() -> None:
    queued = job()
    queued.moved_to(READY)
    assert queued.state is QUEUED


def test_every_state_says_where_it_leads_and_nobody_can_change_that() -> None:
    assert set(LEGAL) == set(JobState)
    with pytest.raises(TypeError):
        LEGAL[DONE] = frozenset(JobState)  # type: ignore[index]


def test_nothing_follows_an_end_and_every_other_state_can_come_to_one() -> None:
    for state in JobState:
        assert state.ended == (not LEGAL[state]) == (state in (DONE, FAILED))
        assert state.ended or FAILED in LEGAL[state]


def test_a_job_trains_until_it_is_stopped_unless_it_is_said() -> None:
    plain = Job(name="vgg", trace=TRACE)
    assert plain == Job(
        name="vgg",
        trace=TRACE,
        kind=JobKind.TRAINING,
        iterations=None,
        priority=0,
        deadline_seconds=None,
        state=QUEUED,
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
def test_a_job_that_cannot_be_is_refused(facts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Job(**{"name": "vgg", "trace": TRACE, **facts})  # type: ignore[arg-type]
