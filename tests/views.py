"""Views for tests of policies, written by hand: `view(job("a", state=READY), job("b"), budget=10)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neaptide.core.control.events import Event, Woken
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.profile import Profile


def tide(*levels: int, step_ns: int = 10, persistent: int = 0, forward_ns: int | None = None, **facts: Any) -> Profile:
    """A profile whose curve has these levels, each for `step_ns`; the forward pass is its first half."""
    duration_ns = step_ns * len(levels)
    given = {"name": "tide", "utilisation": 0.5, "light_share": 0.0, "batch": 1, **facts}
    return Profile(
        persistent_bytes=persistent,
        curve=MemoryCurve.of_steps([step_ns] * len(levels), list(levels)),
        solo_ns=duration_ns,
        forward_ns=duration_ns // 2 if forward_ns is None else forward_ns,
        **given,
    )


def job(name: str, *plans: Profile, state: JobState = JobState.READY, **facts: Any) -> JobView:
    """A job that needs next to nothing unless told otherwise."""
    given: dict[str, Any] = {
        "kind": JobKind.TRAINING,
        "priority": 0,
        "arrived_ns": 0,
        "plan": 0,
        "lane": None,
        "lane_since_ns": 0,
        "iterations_done": 0,
        "iterations_left": None,
        "since_ns": 0,
        "position_ns": 0,
        "started_ns": 0,
        "service_ns": 0,
        "share_ns": 0,
        "busy_ns": 0,
        "recent_ns": 0,
        "beside": {},
        "held_bytes": 0,
        "stalled": False,
        "gate_open": True,
        "in_flight": None,
        "requests": (),
        "serving": (),
        "deadline_ns": None,
        **facts,
    }
    plans = plans or (tide(1),)
    profile, limit_bytes = plans[given["plan"]], given.get("limit_bytes")
    profile = profile if limit_bytes is None else profile.limited_to(limit_bytes)
    return JobView(name=name, state=state, plans=plans, profile=profile, **given)


def view(
    *jobs: JobView,
    budget: int = 100,
    now: int = 0,
    event: Event | None = None,
    lanes: Mapping[int, int] | None = None,
    overflow: bool = False,
) -> View:
    held = sum(each.held_bytes for each in jobs)
    return View(
        now_ns=now,
        event=event or Woken(now),
        budget_bytes=budget,
        held_bytes=held,
        jobs=jobs,
        lanes=lanes or {},
        overflow=overflow,
    )
