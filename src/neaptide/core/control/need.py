"""What a policy may need of a device and of its jobs."""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """Something that a policy relies on and that not every engine or job can supply."""

    CURVE = "curve"  # a job's memory over its iteration
    PROGRESS = "progress"  # where the device is in a running iteration
    ITERATION_TIME = "iteration time"  # how long an iteration takes alone
    REMAINING = "remaining iterations"
    DEADLINE = "deadline"  # of inference requests
    PHASES = "phases"  # an event when the forward pass ends
    GATE = "gate"  # heavy ops can be held back
    CLASSES = "classes"  # ops of deadline jobs go first
    HOLDING = "holding"  # a closed gate holds ops that were launched and have not begun, too
    SHARES = "shares"  # a job can be limited to a share of the SMs
    SUSPEND = "suspend"  # a job's bytes can be moved to the host
    OVERFLOW = "overflow"  # what a job needs beyond its limit on the device is in host memory, where its ops reach it
    PAGING = "paging"  # jobs may hold more than the device has, which pages; a policy with `oversubscribes` needs it
