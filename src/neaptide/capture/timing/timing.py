"""Times and scratch of each op, from runs without the recorder: the framework's profiler, matched by order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd import ProfilerConfig, ProfilerState  # type: ignore[attr-defined]


@dataclass(slots=True)
class Events:
    """What the profiler saw on the thread that ran the iteration."""

    thread: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Span:
    """One op of the profiled run."""

    start_seconds: float
    end_seconds: float
    scratch_bytes: int  # most that was held inside it above what it left behind


@contextmanager
def profiled(memory: bool) -> Iterator[Events]:
    """Profile what runs inside; the events are there when it ends."""
    events = Events()
    experimental = torch._C._profiler._ExperimentalConfig()
    config = ProfilerConfig(ProfilerState.CPU, False, memory, False, False, False, experimental)
    torch.autograd._enable_profiler_legacy(config)  # type: ignore[attr-defined]
    try:
        yield events
    finally:
        threads = torch.autograd._disable_profiler_legacy()  # type: ignore[attr-defined]
        events.thread = max(threads, key=len, default=[])


def match(events: Sequence[Any], names: Sequence[str]) -> list[Span] | None:
    """The span of each named op, in order; None if the run did something else.

    The recorder sees an op after composite ones were taken apart, so the profile has more: wrappers around an op, and
    what it calls inside. The next op of the list is the next event of its name that is inside no op matched before, or
    that encloses the ops matched last (an in-place op first saves a copy). Where the recorder made the framework work
    on a copy, the profile has the op in place.
    """
    if not events:
        return None
    origin = events[0]
    spans: list[Span] = []
    enclosing: list[tuple[str, float]] = []  # open events outside any matched op: name and start
    inside = 0  # depth below the matched op; 0: looking for the next
    start = held = highest = 0.0

    def is_next(name: str) -> bool:
        return len(spans) < len(names) and names[len(spans)] in (name, name.removesuffix("_"))

    for event in events:
        kind = event.kind()
        if kind == "push":
            if inside:
                inside += 1
            elif is_next(event.name()):
                inside, held, highest = 1, 0.0, 0.0
                start = origin.cpu_elapsed_us(event)
            else:
                enclosing.append((event.name(), origin.cpu_elapsed_us(event)))
        elif kind == "pop" and inside:
            inside -= 1
            if inside == 0:
                end = origin.cpu_elapsed_us(event)
                spans.append(Span(start * 1e-6, end * 1e-6, int(highest - max(held, 0.0))))
        elif kind == "pop" and enclosing:
            name, opened = enclosing.pop()
            if spans and is_next(name) and opened * 1e-6 <= spans[-1].start_seconds:
                spans.append(Span(spans[-1].end_seconds, origin.cpu_elapsed_us(event) * 1e-6, 0))
        elif kind == "memory_alloc" and inside:
            held += event.cpu_memory_usage()
            highest = max(highest, held)
    return spans if len(spans) == len(names) else None
