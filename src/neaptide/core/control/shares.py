"""Fair queuing: what each job, and each priority, has had of the device.

A job's `share_ns` is its device time. The figure of a priority is the device time of its jobs over their weights
(core.rules.shares); the priority with the smallest figure is due. A job or a priority gets no credit for the time it
was not there, and one turn at most for the time in host memory: otherwise it would hold up all others when it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from neaptide.core.control.account import Account
from neaptide.core.rules.shares import weight


class Shares:
    """The shares of the present jobs, which the ledger adds and removes."""

    def __init__(self, present: Mapping[str, Account]) -> None:
        self._present = present
        self._served_ns: dict[int, int] = {}  # by priority, over the weights
        self._mixed = False  # jobs of several priorities have been there together
        self._left_ns = 0  # the smallest share of those that wanted the device when the last job left it

    @property
    def all_alike(self) -> bool:
        """Whether the figure of every priority is 0, because jobs of several have never been there together."""
        return not self._served_ns

    def of_priority(self, priority: int) -> int:
        """The device time of a priority's jobs over their weights."""
        return self._served_ns.get(priority, 0)

    def join(self, account: Account, credit_ns: float = 0) -> None:
        """A job comes, comes back, or has work again: level it with those that are there."""
        shares = [other.share_ns for other in self._others(account) if other.wants_device]
        floor_ns = min(shares, default=self._left_ns) - round(credit_ns)
        account.share_ns = max(account.share_ns, floor_ns)
        self._mixed = any(other.job.priority != account.job.priority for other in self._others(account))
        if not self._mixed:
            return
        priorities = {other.job.priority for other in self._others(account) if _competes(other)}
        if priorities and account.job.priority not in priorities:
            floor_ns = min(self.of_priority(other) for other in priorities) - round(credit_ns)
            self._served_ns[account.job.priority] = max(self.of_priority(account.job.priority), floor_ns)

    def leave(self) -> None:
        """A job is about to leave the device."""
        self._left_ns = min(
            (each.share_ns for each in self._present.values() if each.wants_device), default=self._left_ns
        )

    def serve(self, account: Account, work_ns: int) -> None:
        """A job has had the device for this long."""
        account.share_ns += work_ns
        if not self._mixed or account.job.deadline_seconds is not None:
            return
        competing = [each for each in self._present.values() if each is account or _competes(each)]
        jobs = Counter(each.job.priority for each in competing)
        if len(jobs) < 2:
            return
        mine = account.job.priority
        self._served_ns[mine] = now_ns = self.of_priority(mine) + round(work_ns / (weight(mine) * jobs[mine]))
        for each in competing:
            # Twice: it waits for one turn of its own while a more urgent job has the device.
            least_ns = now_ns - round(2 * each.turn_ns / weight(each.job.priority))
            self._served_ns[each.job.priority] = max(self.of_priority(each.job.priority), least_ns)

    def _others(self, account: Account) -> Iterable[Account]:
        return (other for other in self._present.values() if other is not account)


def _competes(account: Account) -> bool:
    """Whether the job shares the device by its weight: it has work, and no deadline that puts it before all others."""
    return account.expects_work and not account.unresponsive and account.job.deadline_seconds is None
