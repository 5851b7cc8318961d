"""Policies for tests of engines: one that starts everything, one that follows a function, and a malicious one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from neaptide.policy import (
    Action,
    Admit,
    CapInFlight,
    JobState,
    MoveLane,
    Policy,
    Resume,
    SetGate,
    SetPlan,
    Start,
    Suspend,
    View,
    WakeAt,
)


class Everything(Policy):
    """Admits every job that arrives and starts every job that can start."""

    name = "everything"

    def decide(self, view: View) -> Sequence[Action]:
        admitted = [Admit(job.name) for job in view.queued]
        return [*admitted, *(Start(job.name) for job in view.startable), *(Start(each.job) for each in admitted)]


class Paging(Everything):
    """The same, but it may admit jobs that exceed the budget together."""

    name = "paging"
    oversubscribes = True


class SendsIdleAway(Everything):
    """Keeps a job on the device only while requests wait for it."""

    name = "sends-idle-away"

    def decide(self, view: View) -> Sequence[Action]:
        away: list[Action] = [Suspend(job.name) for job in view.in_state(JobState.READY) if not job.requests]
        back: list[Action] = [Resume(job.name) for job in view.in_state(JobState.SUSPENDED) if job.requests]
        return [*away, *back, *super().decide(view)]


class Told(Everything):
    """Takes the actions that a function of the view returns, and then starts everything."""

    name = "told"

    def __init__(self, tell: Callable[[View], Sequence[Action]], everything: bool = True) -> None:
        self._tell = tell
        self._everything = everything

    def decide(self, view: View) -> Sequence[Action]:
        return [*self._tell(view), *(super().decide(view) if self._everything else ())]


class Malicious(Policy):
    """Takes random actions, but leaves no job suspended or behind a gate for ever. Keeps only its random state."""

    name = "malicious"

    def __init__(self, seed: int, wake_ns: int = 3_000_000) -> None:
        self._random = random.Random(seed)
        self._wake_ns = wake_ns

    def decide(self, view: View) -> Sequence[Action]:
        actions: list[Action] = [WakeAt(view.now_ns + self._random.randint(1, self._wake_ns))]
        for job in view.jobs:
            name, chance = job.name, self._random.random()
            if job.state is JobState.SUSPENDED:
                actions += [Resume(name)] if chance < 0.7 else []
            elif chance < 0.15:
                actions.append(Suspend(name))
            elif chance < 0.25:
                actions.append(SetGate(name, not job.gate_open))
            elif not job.gate_open and chance < 0.6:
                actions.append(SetGate(name, True))
            elif chance < 0.35:
                actions.append(CapInFlight(name, self._random.choice([1, 2, 5, None])))
            elif chance < 0.42:
                actions.append(SetPlan(name, self._random.randint(0, 2)))
            elif chance < 0.44:
                actions += [MoveLane(name, 3), Suspend(name), Resume(name), Start(name), Suspend(name)]
            actions += [Admit(name), Start(name)]
        return actions
