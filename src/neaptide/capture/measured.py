"""The trace of a step that is run."""

from __future__ import annotations

from collections.abc import Callable

import torch

from neaptide.capture.recording.cutting import Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.session import Session
from neaptide.core.traces.trace import Trace


def measure(
    step: Callable[[], object],
    iterations: int = 1,
    *,
    device: torch.device | str = "cpu",
    name: str = "",
    batch: int = 0,
    timed: int = 2,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Run `step` and return the trace of one of its iterations.

    `step` is called 2 + `iterations` times under the recorder and, for the times, 2 * `timed` + 1 times without it. If
    the recorded iterations differ, the trace is that of the largest, and its `variation` says how they differ.
    """
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    where = Where(
        name=name or getattr(step, "__qualname__", "step"),
        device=str(torch.device(device)),
        sms=torch.get_num_threads(),
        batch=batch,
        estimated=False,
        asynchronous=torch.device(device).type != "cpu",
    )
    session = Session(torch.device(device), recorded=iterations, timed=timed, on_progress=on_progress)
    try:
        with watching(session.recorder):
            while session.advance():
                step()
    finally:
        session.close()
    return session.trace(where)
