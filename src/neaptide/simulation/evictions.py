"""Evictions in virtual time: core/rules/eviction.py chooses who goes to host memory and who returns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from neaptide.core.control.engine import Observation
from neaptide.core.rules.eviction import Evicted, Holder, choose_beneficiary, choose_return, choose_victim
from neaptide.simulation.simulated_job import SimulatedJob


class Evictions:
    """Evicts jobs of a native engine and brings them back. `present` jobs have arrived and have not ended."""

    def __init__(
        self,
        library: ctypes.CDLL,
        handle: int,
        jobs: Mapping[str, SimulatedJob],
        present: Sequence[SimulatedJob],
        observe: Callable[[Iterable[str]], Mapping[str, Observation]],
    ) -> None:
        self._library, self._handle = library, handle
        self._jobs, self._present, self._observe = jobs, present, observe
        self._evicted: list[SimulatedJob] = []  # in the order of their evictions

    def make_room(self) -> None:
        """Iterations wait for memory, and nothing can happen by itself: move a job to host memory, or give one up."""
        holders = self._holders()
        beneficiary = choose_beneficiary(holders)
        if beneficiary is None:
            return
        victim = choose_victim(holders, beneficiary.job)
        if victim is None:
            self._library.neaptide_give_up(self._handle, self._jobs[beneficiary.job].number)
            return
        simulated, served = self._jobs[victim.job], self._jobs[beneficiary.job]
        simulated.admitted, simulated.evicted_for = False, (served, served.iterations)
        self._evicted.append(simulated)
        self._library.neaptide_evict(self._handle, simulated.number)

    def _holders(self) -> list[Holder]:
        size = len(self._jobs)
        age, flags = np.empty(size, dtype=np.int64), np.empty((3, size), dtype=np.uint8)
        self._library.neaptide_holders(self._handle, age.ctypes.data, *(flag.ctypes.data for flag in flags))
        seen = self._observe(simulated.job.name for simulated in self._present)
        return [
            Holder(
                job=simulated.job.name,
                held_bytes=seen[simulated.job.name].held_bytes,
                age=None if age[simulated.number] < 0 else int(age[simulated.number]),
                waits=bool(flags[1, simulated.number]),
                held_by_gate=bool(flags[2, simulated.number]),
                can_move=bool(flags[0, simulated.number]),
            )
            for simulated in self._present
        ]

    def bring_back(self, budget_bytes: int) -> None:
        """Restore the evicted jobs that may return within the budget."""
        while self._evicted:
            evicted = [Evicted(each.job.name, each.needs, _may_return(each)) for each in self._evicted]
            admitted = [each.needs for each in self._present if each.admitted]
            chosen = choose_return(evicted, admitted, budget_bytes)
            if chosen is None:
                return
            simulated = self._jobs[chosen.job]
            simulated.admitted = True
            self._evicted.remove(simulated)
            self._library.neaptide_resume(self._handle, simulated.number)

    def forget(self, ended: SimulatedJob) -> None:
        """Bring an ended job back no more."""
        self._evicted = [each for each in self._evicted if each is not ended]


def _may_return(simulated: SimulatedJob) -> bool:
    """Whether the iteration for which the job was evicted has ended, or ends whichever job returns.

    The simulator knows needs exactly, so an iteration that goes on also ends, unless lanes keep memory from it.
    """
    if simulated.lane is None or simulated.evicted_for is None:
        return True
    beneficiary, ended = simulated.evicted_for
    return beneficiary.over or beneficiary.iterations > ended
