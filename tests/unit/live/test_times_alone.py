"""The time of an iteration alone is corrected by iterations that no other job was there to disturb."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from neaptide.live.daemon.times_alone import TimesAlone
from neaptide.live.protocol.messages import IterationEnded

FIRST = 8  # iterations alone before the first comparison


class Profile(SimpleNamespace):
    def timed(self, solo_ns: int) -> Profile:
        return Profile(solo_ns=solo_ns, peak_bytes=self.peak_bytes)


class Job(SimpleNamespace):
    __hash__ = object.__hash__  # as an AttachedJob, it is itself only

    def is_known_as(self, profile: Profile) -> None:
        self.profile = profile


class Machine:
    """An engine with one job that ends iterations."""

    def __init__(self, solo_ns: int) -> None:
        self.posted: list[int] = []
        self.job: Any = Job(name="a", profile=Profile(solo_ns=solo_ns, peak_bytes=50), limit_bytes=None)
        self.engine: Any = SimpleNamespace(
            jobs={"a": self.job},
            now_ns=0,
            jobs_changed_ns=0,
            post=lambda event: self.posted.append(event.solo_ns),
            oversubscribes=False,
            board=SimpleNamespace(snapshot=lambda: SimpleNamespace(capacity_bytes=40)),
        )
        self.times = TimesAlone(self.engine)

    def end(self, *took_ns: int, size: float = 1.0, count: int = 1) -> list[int]:
        """End iterations; the corrections so far."""
        for each in took_ns:
            self.engine.now_ns += each
            ended = IterationEnded(index=0, size=size, extra=0, took_ns=each)
            self.times.iteration_ended(self.job, ended, count)
        return self.posted


def test_a_time_that_is_wrong_is_corrected_by_the_median_of_eight_iterations_alone() -> None:
    machine = Machine(100)
    assert machine.end(*[150] * (FIRST - 3), 151, 900) == []
    assert machine.end(149) == [150]
    assert machine.job.profile.solo_ns == 150


def test_each_correction_doubles_the_iterations_until_the_next() -> None:
    machine = Machine(100)
    machine.end(*[200] * FIRST)
    assert machine.end(*[400] * (2 * FIRST - 1)) == [200]
    assert machine.end(400) == [200, 400]
    assert machine.end(*[800] * (4 * FIRST - 1)) == [200, 400]
    assert machine.end(800) == [200, 400, 800]


@pytest.mark.parametrize(("took_ns", "corrected"), [(110, []), (111, [111]), (90, []), (89, [89])])
def test_times_that_differ_by_a_tenth_at_most_are_taken_as_equal(took_ns: int, corrected: list[int]) -> None:
    assert Machine(100).end(*[took_ns] * FIRST) == corrected


def test_a_large_iteration_and_several_reported_together_count_by_their_work() -> None:
    assert Machine(100).end(*[600] * FIRST, size=2.0, count=3) == []


def test_an_iteration_that_began_before_the_jobs_changed_does_not_count() -> None:
    machine = Machine(100)
    machine.end(*[200] * (FIRST - 1))
    machine.engine.jobs_changed_ns = machine.engine.now_ns + 1  # another job came and went
    assert machine.end(200) == []
    assert machine.end(*[200] * (FIRST - 1)) == []
    assert machine.end(200) == [200]


def test_iterations_with_bytes_over_the_link_do_not_show_the_time_alone() -> None:
    machine = Machine(100)
    machine.job.limit_bytes = 30
    assert machine.end(*[200] * FIRST) == []
    machine.job.limit_bytes = None
    machine.engine.oversubscribes = True  # and the job needs more than the device has
    assert machine.end(*[200] * FIRST) == []
    machine.engine.oversubscribes = False
    assert machine.end(*[200] * FIRST) == [200]
