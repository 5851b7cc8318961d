"""A device and the traces of models on it, for every experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from neaptide.core.control.policy import Policy
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.policies import POLICIES
from neaptide.reproductions.repetition import repeated
from neaptide.scenarios.trace_cache import TraceCache, TraceKey
from neaptide.scenarios.traces import estimate_model

_MOST = 0.8  # share of the device's memory that one job of a pair may need


class Laboratory:
    """Estimates each trace once and keeps it in the user's cache."""

    def __init__(self, device: DeviceSpec, seed: int = 0) -> None:
        self.device, self.seed = device, seed
        self._cache = TraceCache(device)
        self._traces: dict[TraceKey, Trace] = {}
        self._profiles: dict[TraceKey, Profile] = {}
        self._several: dict[tuple[str, int, int], Trace] = {}

    def trace(
        self,
        model: str,
        batch: int,
        *,
        inference: bool = False,
        estimate: Callable[[TraceKey, DeviceSpec], Trace] | None = None,
    ) -> Trace:
        """The trace of a model on the device; `estimate` makes the trace of a model that is not in the zoo."""
        wanted = TraceKey(model, batch, "paper", inference)
        if wanted not in self._traces:
            kept = self._cache.get(wanted)
            if kept is None:
                kept = (estimate or estimate_model)(wanted, self.device)
                self._cache.put(wanted, kept)
            self._traces[wanted] = kept
        return self._traces[wanted]

    def several(self, model: str, batch: int, seconds: float) -> Trace:
        """One trace of as many training iterations as take at least `seconds` together."""
        trace = self.trace(model, batch)
        count = math.ceil(seconds / trace.seconds)
        if (model, batch, count) not in self._several:
            self._several[model, batch, count] = repeated(trace, count)
        return self._several[model, batch, count]

    def profile(self, model: str, batch: int) -> Profile:
        """The profile of a training iteration of a model on the device."""
        wanted = TraceKey(model, batch, "paper", False)
        if wanted not in self._profiles:
            self._profiles[wanted] = Profile.of(self.trace(model, batch))
        return self._profiles[wanted]

    def batch_near(self, model: str, utilisation: float, ladder: Sequence[int]) -> int:
        """The batch size on the ladder, smallest first, that fits the device and comes nearest to the utilisation.

        Utilisation grows with the batch, so a binary search estimates few of the ladder's traces.
        """
        low, high = 0, len(ladder) - 1
        while low < high:
            middle = (low + high) // 2
            enough = self.profile(model, ladder[middle]).utilisation >= utilisation
            low, high = (low, middle) if enough or not self._fits(model, ladder[middle]) else (middle + 1, high)
        fitting = [batch for batch in ladder[max(low - 1, 0) : low + 1] if self._fits(model, batch)]
        if not fitting:
            raise ValueError(f"{model} does not fit {self.device.name} beside another job, even at batch {ladder[0]}")
        return min(fitting, key=lambda batch: abs(self.profile(model, batch).utilisation - utilisation))

    def _fits(self, model: str, batch: int) -> bool:
        return self.profile(model, batch).peak_bytes <= _MOST * self.device.memory_bytes


def policies(*names: str) -> list[Policy]:
    """Policies by name."""
    return [POLICIES.make(name) for name in names]
