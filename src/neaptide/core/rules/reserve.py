"""How much of a deadline is held in reserve for what nobody foresees: it follows the measured tail.

An answer that came late, or nearly so, makes the reserve larger by a step. Every other answer makes it smaller by so
much that the two balance when as many answers are late as the job allows.
"""

from __future__ import annotations

FIRST_RESERVE = 0.3  # of the deadline, before any answer
DEFAULT_QUANTILE = 0.99  # the share of deadlines that is to be kept
_LEAST, _MOST = 0.05, 0.8
_NEARLY = 0.85  # of the deadline: an answer after this counts as late, so that the deadline itself is kept
_STEP = 0.1


def next_reserve(reserve: float, took_ns: int, deadline_ns: int, quantile: float) -> float:
    """The reserve after an answer that took so long."""
    late = took_ns > _NEARLY * deadline_ns
    return min(max(reserve + _STEP * (quantile if late else quantile - 1), _LEAST), _MOST)
