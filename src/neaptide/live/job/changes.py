"""Whether a job's iterations have changed for good since they were measured.

Texts of other lengths, evaluations and longer steps come and go; a change counts when a whole window of iterations
differs. Windows double with each change, so that a job that changes all the time is measured a few times only.
"""

from __future__ import annotations

_WINDOW = 32  # iterations
_CHANGED = 0.25  # of the measured peak


class Changes:
    """Watches the bytes that iterations need at rest and at their peaks."""

    def __init__(self) -> None:
        self._window = _WINDOW
        self._measured = (0, 0)
        self._left = 0
        self._rest_bytes = self._peak_bytes = 0

    def measured(self, rest_bytes: int, peak_bytes: int) -> None:
        """What was measured, to which iterations are compared from now on."""
        self._measured = rest_bytes, peak_bytes
        self._begin()

    def have_come(self, rest_bytes: int, peak_bytes: int) -> bool:
        """Note an iteration; True when the window that it completes differs from what was measured."""
        self._rest_bytes = min(self._rest_bytes, rest_bytes)
        self._peak_bytes = max(self._peak_bytes, peak_bytes)
        self._left -= 1
        if self._left:
            return False
        rest, peak = self._measured
        allowed = _CHANGED * peak
        changed = abs(self._rest_bytes - rest) > allowed or abs(self._peak_bytes - peak) > allowed
        if changed:
            self._window *= 2
        self._begin()
        return changed

    def _begin(self) -> None:
        self._left, self._rest_bytes, self._peak_bytes = self._window, 1 << 62, 0
