"""Why an action must not be carried out: it is unsafe, or makes no sense in the state of the job."""

from __future__ import annotations

from collections.abc import Mapping

from neaptide.core.control import actions as act
from neaptide.core.control.account import Account
from neaptide.core.control.job import INFERENCE, QUEUED, READY, SUSPENDED
from neaptide.core.rules.admission import keep_places, spare_bytes
from neaptide.core.traces.profile import Profile
from neaptide.core.units import format_bytes

MOST_LANES = 64  # as many as a board has slots
_WITH_LANE = (act.Admit, act.MoveLane)


class Refusals:
    """Looks at the accounts of the present jobs and at the sizes of lanes, and changes nothing."""

    def __init__(
        self, present: Mapping[str, Account], lanes: Mapping[int, int], oversubscribes: bool, overflow: bool
    ) -> None:
        self._present = present
        self._lanes = lanes
        self._oversubscribes = oversubscribes
        self._overflow = overflow  # the device has it

    def of(self, action: act.Action, now_ns: int, budget_bytes: int) -> str | None:
        """Why an action must not be carried out under a budget; None when it may."""
        if isinstance(action, act.WakeAt):
            return None if action.at_ns > now_ns else "that time is not in the future"
        if isinstance(action, act.SizeLane):
            return self._too_large(action, budget_bytes)
        account = self._present.get(action.job)  # type: ignore[attr-defined]
        if account is None:
            return "there is no such job"
        if isinstance(action, _WITH_LANE) and not 0 <= (action.lane or 0) < MOST_LANES:
            return f"lanes are numbered from 0 to {MOST_LANES - 1}"
        if isinstance(action, act.SetGate) and action.until_ns is not None:
            if not action.open:
                return "a closed gate is not open until a time"
            if action.until_ns <= now_ns:
                return "that time is not in the future"
        return self._of_job(account, action, budget_bytes)

    def _of_job(self, account: Account, action: act.Action, budget_bytes: int) -> str | None:
        state = account.state
        match action:
            case act.Admit():
                problem = _unless(state is QUEUED, "it is not queued")
                return problem or self._too_much(account, account.profile, budget_bytes)
            case act.Start():
                if state is READY and account.job.kind is INFERENCE and not account.requests:
                    return "no request waits for it"
                return _unless(state is READY, "it is not ready")
            case act.SetPlan():
                if not 0 <= action.plan < len(account.plans):
                    return f"it has {len(account.plans)} plans"
                if account.inside_an_iteration:
                    return "it is inside an iteration"
                return self._needs_more(account, account.limited(account.plans[action.plan]), budget_bytes)
            case act.SetLimit():
                return self._of_limit(account, action, budget_bytes)
            case act.Resume():
                problem = _unless(state is SUSPENDED and not account.evicted, "it is not suspended")
                return problem or self._too_much(account, account.profile, budget_bytes)
            case act.SetShare() if action.share is not None and not 0 < action.share <= 1:
                return "a share is above 0 and at most 1"
            case act.Suspend() | act.MoveLane() | act.SetGate() | act.SetClass() | act.SetShare():
                return _unless(account.admitted, "it is not admitted")
            case act.CapInFlight():
                return _unless(action.kernels is None or action.kernels >= 1, "a cap is at least 1")
        return None

    def _of_limit(self, account: Account, action: act.SetLimit, budget_bytes: int) -> str | None:
        if not self._overflow:
            return "the device has no overflow"
        if account.inside_an_iteration:
            return "it is inside an iteration"
        plan = account.plans[account.plan]
        if action.bytes is not None and action.bytes < plan.persistent_bytes:
            return f"between iterations it holds {format_bytes(plan.persistent_bytes)} on the device"
        limited = plan if action.bytes is None else plan.limited_to(action.bytes)
        return self._needs_more(account, limited, budget_bytes)

    def _too_large(self, action: act.SizeLane, budget_bytes: int) -> str | None:
        """Why the lane cannot have this size beside the bytes at rest and the other lanes."""
        if not 0 <= action.lane < MOST_LANES or action.bytes < 0:
            return f"lanes are numbered from 0 to {MOST_LANES - 1}, and have a size of at least 0"
        if action.bytes <= self._lanes.get(action.lane, 0):
            return None
        lanes_bytes = sum({**self._lanes, action.lane: action.bytes}.values())
        at_rest_bytes = sum(account.profile.persistent_bytes for account in self._present.values() if account.admitted)
        missing = at_rest_bytes + lanes_bytes - budget_bytes
        return None if missing <= 0 else f"it would need {format_bytes(missing)} more than the budget"

    def _too_much(self, account: Account, profile: Profile, budget_bytes: int) -> str | None:
        """Why the job, with this profile, cannot be among the admitted ones."""
        if self._oversubscribes:
            return None
        admitted = [other for other in self._present.values() if other.admitted]
        evicted = [other.profile for other in self._present.values() if other.evicted and not other.unresponsive]
        kept = keep_places(evicted, [other.profile for other in admitted], budget_bytes)
        others = [other.profile for other in admitted if other is not account]
        spare = spare_bytes([profile, *others, *kept], budget_bytes)
        return None if spare >= 0 else f"it would need {format_bytes(-spare)} more than the budget"

    def _needs_more(self, account: Account, profile: Profile, budget_bytes: int) -> str | None:
        """Why a job on the device cannot change to this profile. It always may if it needs less than now."""
        now = account.profile
        less = profile.persistent_bytes <= now.persistent_bytes and profile.ephemeral_bytes <= now.ephemeral_bytes
        return None if less or not account.admitted else self._too_much(account, profile, budget_bytes)


def _unless(right: bool, problem: str) -> str | None:
    return None if right else problem
