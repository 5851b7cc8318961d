"""What the author of a policy needs: the interface, the view, actions and events, and parts that policies share.

A policy is a class with one method, `decide(view) -> Sequence[Action]`. docs/writing-a-policy.md shows one.
"""

from neaptide.core.control.actions import (
    Action,
    Admit,
    CapInFlight,
    MoveLane,
    Resume,
    SetGate,
    SetPlan,
    Start,
    Suspend,
    WakeAt,
)
from neaptide.core.control.events import (
    BudgetChanged,
    Event,
    IterationEnded,
    JobArrived,
    JobEnded,
    JobEvicted,
    JobFailed,
    JobGrew,
    JobResumed,
    JobStalled,
    JobSuspended,
    PhaseEnded,
    RequestArrived,
    Woken,
)
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import spare_bytes
from neaptide.core.traces.curve import MemoryCurve, total
from neaptide.core.traces.profile import Profile
from neaptide.policies import POLICIES
from neaptide.policies.files import find_policy
from neaptide.policies.parts.admission import admissible, admit_in_order, has_work, over_budget, resumable
from neaptide.policies.parts.stagger import Stagger, caps

__all__ = [
    "POLICIES",
    "Action",
    "Admit",
    "BudgetChanged",
    "CapInFlight",
    "Event",
    "IterationEnded",
    "JobArrived",
    "JobEnded",
    "JobEvicted",
    "JobFailed",
    "JobGrew",
    "JobKind",
    "JobResumed",
    "JobStalled",
    "JobState",
    "JobSuspended",
    "JobView",
    "MemoryCurve",
    "MoveLane",
    "Need",
    "PhaseEnded",
    "Policy",
    "Profile",
    "RequestArrived",
    "Resume",
    "SetGate",
    "SetPlan",
    "Stagger",
    "Start",
    "Suspend",
    "View",
    "WakeAt",
    "Woken",
    "admissible",
    "admit_in_order",
    "caps",
    "find_policy",
    "has_work",
    "over_budget",
    "resumable",
    "spare_bytes",
    "total",
]
