"""Times and scratch of each op, from the framework's profiler in runs without the recorder."""

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
class OpSpan:
    """One op of the profiled run."""

    start_seconds: float
    end_seconds: float
    scratch_bytes: int  # most bytes held inside the op, above those that it leaves allocated


@contextmanager
def profiled(memory: bool) -> Iterator[Events]:
    """Profile the code inside; the events are complete after the end of the context."""
    events = Events()
    experimental = torch._C._profiler._ExperimentalConfig()
    config = ProfilerConfig(ProfilerState.CPU, False, memory, False, False, False, experimental)
    torch.autograd._enable_profiler_legacy(config)  # type: ignore[attr-defined]
    try:
        yield events
    finally:
        threads = torch.autograd._disable_profiler_legacy()  # type: ignore[attr-defined]
        events.thread = max(threads, key=len, default=[])


def match(events: Sequence[Any], names: Sequence[str]) -> list[OpSpan] | None:
    """The span of each named op, in order; None if the profiled run made other ops.

    The recorder sees ops after composite ones were decomposed, so the profile has more events: wrappers around an op,
    and calls inside it. The next op of the list is the next event of its name that is not inside a matched op, or that
    encloses the op matched last (an in-place op first saves a copy). Where the framework works on a copy under the
    recorder, the profile has the in-place op.
    """
    if not events:
        return None
    origin = events[0]
    spans: list[OpSpan] = []
    enclosing: list[tuple[str, float]] = []  # open events outside any matched op: name and start
    inside = 0  # depth below the matched op; 0 while looking for the next
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
                spans.append(OpSpan(start * 1e-6, end * 1e-6, int(highest - max(held, 0.0))))
        elif kind == "pop" and enclosing:
            name, opened = enclosing.pop()
            if spans and is_next(name) and opened * 1e-6 <= spans[-1].start_seconds:
                spans.append(OpSpan(spans[-1].end_seconds, origin.cpu_elapsed_us(event) * 1e-6, 0))
        elif kind == "memory_alloc" and inside:
            held += event.cpu_memory_usage()
            highest = max(highest, held)
    return spans if len(spans) == len(names) else None
