"""Real trainings with bytes over the link: the same numbers as alone, and never more than the budget on the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from daemons import kill, until
from neaptide.core.control.actions import Action, Admit, SetLimit, Start, Suspend
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import JobEnded, JobEvicted, JobStalled
from neaptide.core.control.need import Need
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.devices.board.figures import NO_CEILING
from neaptide.policies.antman import AntMan
from neaptide.reporting.logs.log_file import read_runs
from real_jobs import RealDaemon, StartDaemon, alone, go_on, until_it_pauses

IMAGES = ("resnet18", "256", "20")
TEXT = ("gpt2", "32", "20")
LIMITED_STEPS = 4


@dataclass
class Sights:
    """What the board showed of one job, again and again."""

    over_bytes: set[int] = field(default_factory=set)
    beyond_limit: list[tuple[int, int]] = field(default_factory=list)  # leased, and the limit, at two looks in a row
    was_beyond: bool = False  # an iteration that begins sends chunks over one by one
    limited: bool = False
    over_when_lifted: set[int] = field(default_factory=set)  # while it held memory


class Watch:
    """Looks at the board all the time."""

    def __init__(self, daemon: RealDaemon) -> None:
        self._daemon, self._ends = daemon, threading.Event()
        self.seen: dict[str, Sights] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ends.is_set():
            for slot in self._daemon.board.snapshot().slots:
                sights = self.seen.setdefault(slot.job, Sights())
                sights.over_bytes.add(slot.over_bytes)
                sights.limited |= slot.limit_bytes != NO_CEILING
                if sights.limited and slot.limit_bytes == NO_CEILING and slot.held_bytes:
                    sights.over_when_lifted.add(slot.over_bytes)
                is_beyond = slot.over_bytes > 0 and slot.held_bytes > slot.limit_bytes
                if is_beyond and sights.was_beyond:
                    sights.beyond_limit.append((slot.held_bytes, slot.limit_bytes))
                sights.was_beyond = is_beyond
            time.sleep(0.001)

    def end(self) -> dict[str, Sights]:
        self._ends.set()
        self._thread.join()
        return self.seen


class LimitsFor(Policy):
    """Lets job `a` run `steps` iterations with a limit half-way between its rest and its peak, then without."""

    name = "limits-for"
    needs = frozenset({Need.OVERFLOW})

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.limit_bytes = 0

    def decide(self, view: View) -> Sequence[Action]:
        actions: list[Action] = []
        for job in view.queued:
            if job.name == "a":
                self.limit_bytes = (job.profile.persistent_bytes + job.profile.peak_bytes) // 2
                actions.append(SetLimit(job.name, self.limit_bytes))
            actions += [Admit(job.name), Start(job.name)]
        for job in view.startable:
            if job.limit_bytes is not None and job.iterations_done >= self._steps:
                actions.append(SetLimit(job.name, None))
            actions.append(Start(job.name))
        return actions


def test_a_training_under_a_limit_keeps_it_and_ends_with_the_numbers_of_a_run_alone(
    start: Callable[[Policy, int], RealDaemon],
) -> None:
    policy, beside = LimitsFor(LIMITED_STEPS), ("gpt2", "8", "80")
    daemon = start(policy, alone(IMAGES).peak_bytes + alone(beside).peak_bytes + (32 << 20))
    watch = Watch(daemon)
    process = daemon.begin("a", IMAGES, pauses=True)
    until_it_pauses(process)
    other = daemon.begin("b", beside)  # so that it starts iteration by iteration
    until(lambda: any(job.name == "b" and job.iterations_done > 0 for job in daemon.status().jobs), "b to run")
    go_on(process)
    daemon.ends_as_alone(process, IMAGES)
    daemon.ends_as_alone(other, beside)
    seen = watch.end()
    assert max(seen["a"].over_bytes) > 0
    assert seen["a"].beyond_limit == []
    assert 0 in seen["a"].over_when_lifted  # what was over the link has returned, or was given back
    assert seen["b"].over_bytes == {0}
    (run,) = read_runs(daemon.paths.events)
    decided = [entry.action for entry in run.entries if isinstance(entry, Decided)]
    assert [action for action in decided if isinstance(action, SetLimit)] == [
        SetLimit("a", policy.limit_bytes),
        SetLimit("a", None),
    ]
    daemon.check_memory()
    assert daemon.board.snapshot().over_bytes == 0


def test_under_antman_a_training_overflows_beside_the_guaranteed_one(
    start: Callable[[Policy, int], RealDaemon],
) -> None:
    guaranteed, other = ("gpt2", "32", "60"), ("resnet18", "256", "30")
    # With this bound the guaranteed job is never behind, however busy the machine is, so the other one goes on.
    daemon = start(AntMan(bound=1000.0), alone(guaranteed).peak_bytes + alone(other).peak_bytes * 3 // 5)
    watch = Watch(daemon)
    second = daemon.begin("a", other, pauses=True)
    until_it_pauses(second)
    first = daemon.begin("g", guaranteed, priority=1)
    until(lambda: any(job.name == "g" and job.iterations_done > 0 for job in daemon.status().jobs), "g to run")
    go_on(second)
    daemon.ends_as_alone(first, guaranteed)
    daemon.ends_as_alone(second, other)
    seen = watch.end()
    assert max(seen["a"].over_bytes) > 0
    assert seen["a"].beyond_limit == []
    assert seen["g"].over_bytes == {0}
    (run,) = read_runs(daemon.paths.events)
    decided = [entry.action for entry in run.entries if isinstance(entry, Decided)]
    assert [action for action in decided if isinstance(action, Suspend)] == []
    daemon.check_memory()


@pytest.mark.parametrize("oversubscribed", [1.25, 2.0])
def test_under_spatial_paged_no_training_waits_for_memory(oversubscribed: float, start: StartDaemon) -> None:
    budget = int((alone(IMAGES).peak_bytes + alone(TEXT).peak_bytes) / oversubscribed)
    daemon = start("spatial-paged", budget)
    watch = Watch(daemon)
    jobs = {each: daemon.begin(each[0], each, pauses=True) for each in (IMAGES, TEXT)}
    for process in jobs.values():
        until_it_pauses(process)
    for process in jobs.values():
        go_on(process)
    for arguments, process in jobs.items():
        daemon.ends_as_alone(process, arguments)
    seen = watch.end()
    if oversubscribed == 2:  # one that holds its peak and one at rest are too much already
        assert max(max(each.over_bytes) for each in seen.values()) > 0
    (run,) = read_runs(daemon.paths.events)
    assert [entry for entry in run.entries if isinstance(entry, JobStalled)] == []
    # While it pauses, a job may count as one that does not respond.
    assert [entry for entry in run.entries if isinstance(entry, JobEvicted) and not entry.unresponsive] == []
    assert [entry.stalled_ns for entry in run.entries if isinstance(entry, JobEnded)] == [0, 0]
    daemon.check_memory()


def test_a_killed_training_leaves_nothing_over_the_link(start: StartDaemon) -> None:
    daemon = start("spatial-paged", alone(IMAGES).peak_bytes // 4)  # less than it holds between iterations
    process = daemon.begin("a", IMAGES, pauses=True)
    until_it_pauses(process)
    assert daemon.board.snapshot().over_bytes > 0
    kill(process)
    go_on(process)  # only its pipe is left
    until(lambda: daemon.board.snapshot().over_bytes == 0, "them to be gone")
    daemon.check_memory()
