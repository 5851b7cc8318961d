"""What the author of a policy needs: the interface, the view, actions and events, and parts that policies share.

A policy is a class with one method, `decide(view) -> Sequence[Action]`. docs/writing-a-policy.md shows one.
"""

from neaptide.core.control.actions import (
    Action,
    Admit,
    CapInFlight,
    MoveLane,
    Resume,
    SetClass,
    SetGate,
    SetLimit,
    SetPlan,
    SetShare,
    SizeLane,
    Start,
    Suspend,
    WakeAt,
)
from neaptide.core.control.events import (
    BudgetChanged,
    CallWithdrawn,
    Event,
    IterationEnded,
    JobArrived,
    JobEnded,
    JobEvicted,
    JobFailed,
    JobGrew,
    JobLeft,
    JobMeasured,
    JobResumed,
    JobStalled,
    JobSuspended,
    PhaseEnded,
    RequestAnswered,
    RequestArrived,
    RequestCalled,
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
from neaptide.policies.parts.shares import Competition, due
from neaptide.policies.parts.stagger import Stagger, caps
from neaptide.policies.parts.turns import swap

__all__ = [
    "POLICIES",
    "Action",
    "Admit",
    "BudgetChanged",
    "CallWithdrawn",
    "CapInFlight",
    "Competition",
    "Event",
    "IterationEnded",
    "JobArrived",
    "JobEnded",
    "JobEvicted",
    "JobFailed",
    "JobGrew",
    "JobKind",
    "JobLeft",
    "JobMeasured",
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
    "RequestAnswered",
    "RequestArrived",
    "RequestCalled",
    "Resume",
    "SetClass",
    "SetGate",
    "SetLimit",
    "SetPlan",
    "SetShare",
    "SizeLane",
    "Stagger",
    "Start",
    "Suspend",
    "View",
    "WakeAt",
    "Woken",
    "admissible",
    "admit_in_order",
    "caps",
    "due",
    "find_policy",
    "has_work",
    "over_budget",
    "resumable",
    "spare_bytes",
    "swap",
    "total",
]
