"""NVIDIA's MIG: the device is cut into instances, each with a fixed slice of the SMs and of the memory.

An instance is chosen before the jobs come, and cannot be used by two jobs or lent. The slices are those of an A100:
seven of its SMs and eight of its memory. MIG also divides the memory bandwidth, which is not modelled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.job import READY, RUNNING, SUSPENDED
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work
from neaptide.policies.parts.sm_shares import share_out

_SM_SLICES, _MEMORY_SLICES = 7, 8
# How many equal instances a device can have, and the slices of each: 7g.40gb, 3g.20gb, 2g.10gb, 1g.5gb.
_PROFILES = {1: (7, 8), 2: (3, 4), 3: (2, 2), 7: (1, 1)}


@dataclass(frozen=True)
class Mig(Policy):
    """Each job has one of `instances` equal instances until it ends. Jobs get them in the order of arrival.

    A job that needs more memory than an instance has waits until the device is empty, and then has it whole.
    """

    name = "mig"
    needs = frozenset({Need.SHARES})
    instances: int = 2

    def __post_init__(self) -> None:
        if self.instances not in _PROFILES:
            raise ValueError(f"instances must be one of {', '.join(map(str, _PROFILES))}, not {self.instances}")

    def decide(self, view: View) -> Sequence[Action]:
        inside = view.in_state(READY, RUNNING, SUSPENDED)
        small_bytes, small = self._instance(view)
        coming: list[JobView] = []
        for job in view.queued:
            if job.profile.peak_bytes > view.budget_bytes:
                continue
            taken = [*inside, *coming]
            large = any(each.profile.peak_bytes > small_bytes for each in [*taken, job])
            if len(taken) == self.instances or (taken and large):
                break
            coming.append(job)
        whole = [job for job in [*view.admitted, *coming] if job.profile.peak_bytes > small_bytes]
        ceiling_bytes = view.budget_bytes if whole else small_bytes
        return [
            *(Admit(job.name, ceiling_bytes=ceiling_bytes) for job in coming),
            *(Start(job.name) for job in view.startable + [job for job in coming if has_work(job)]),
            *share_out((job, 1.0 if whole else small) for job in [*view.admitted, *coming]),
        ]

    def _instance(self, view: View) -> tuple[int, float]:
        """The memory of one instance, and its share of the SMs."""
        sms, memory = _PROFILES[self.instances]
        return view.budget_bytes * memory // _MEMORY_SLICES, sms / _SM_SLICES
