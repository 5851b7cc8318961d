"""What happens at one nanosecond happens in a fixed order: by kind, then by sequence."""

from __future__ import annotations

from builders import Op, Tensor, make_trace
from neaptide.core.control import events as ev
from neaptide.core.control.actions import Action, Admit, Start, WakeAt
from neaptide.core.control.controller import Decided
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.simulation import Submission, simulate
from simple_policies import Told

DEVICE = find_device("V100-16GB")
SECOND = 1_000_000_000


def light(seconds: float = 1.0, need: int = 0) -> Trace:
    return make_trace([Op(seconds=seconds, fill=0.0)], [Tensor(bytes=need, born=0, died=0)])


def test_ops_end_before_the_budget_changes_then_come_arrivals_requests_and_the_wake_up() -> None:
    def tell(view: View) -> list[Action]:
        return [WakeAt(SECOND)] if view.now_ns == 0 else []

    serving = Job(name="serving", trace=light(), kind=JobKind.INFERENCE)
    submissions = [
        Submission(Job(name="first", trace=light(), iterations=1)),
        Submission(serving, 0, (SECOND,)),
        Submission(Job(name="second", trace=light(), iterations=1)),
        Submission(Job(name="late", trace=light(), iterations=1), SECOND),
    ]
    outcome = simulate(submissions, DEVICE, 100, Told(tell), budget_changes=[(SECOND, 99)])
    at_that_time = [e for e in outcome.entries if e.at_ns == SECOND and not isinstance(e, Decided)]
    assert [e for e in at_that_time if isinstance(e, ev.Event)] == [
        ev.IterationEnded(SECOND, "first", SECOND),
        ev.JobEnded(SECOND, "first"),
        ev.IterationEnded(SECOND, "second", SECOND),
        ev.JobEnded(SECOND, "second"),
        ev.BudgetChanged(SECOND, 99),
        ev.JobArrived(SECOND, "late"),
        ev.RequestArrived(SECOND, "serving"),
        ev.Woken(SECOND),
    ]


def test_ops_that_end_together_end_in_the_order_of_submission_and_not_of_their_starts() -> None:
    def tell(view: View) -> list[Action]:
        admitted: list[Action] = [Admit(job.name) for job in view.queued]
        if len(view.jobs) == 2 and not view.running:
            return [*admitted, Start("b"), Start("a")]
        return admitted

    submissions = [Submission(Job(name=name, trace=light(), iterations=1)) for name in "ab"]
    outcome = simulate(submissions, DEVICE, 100, Told(tell, everything=False))
    assert [e.job for e in outcome.entries if isinstance(e, ev.IterationEnded)] == ["a", "b"]


def test_hosts_that_launch_together_are_served_by_age() -> None:
    """Both ask for the same last bytes at the same time; the iteration that was started first gets them."""

    def tell(view: View) -> list[Action]:
        admitted: list[Action] = [Admit(job.name) for job in view.queued]
        if len(view.jobs) == 2 and not view.running and not view.jobs[0].iterations_done:
            return [*admitted, Start("b"), Start("a")]
        return admitted

    submissions = [Submission(Job(name=name, trace=light(need=60), iterations=1)) for name in "ab"]
    outcome = simulate(submissions, DEVICE, 100, Told(tell, everything=False))
    assert [e for e in outcome.entries if isinstance(e, ev.JobStalled)] == [ev.JobStalled(0, "a")]
    assert [e.job for e in outcome.entries if isinstance(e, ev.IterationEnded)] == ["b", "a"]


def test_memory_freed_as_the_budget_falls_is_granted_under_the_new_budget() -> None:
    submissions = [
        Submission(Job(name="a", trace=light(need=60), iterations=1)),
        Submission(Job(name="b", trace=light(need=60), iterations=1)),
    ]
    changes = [(SECOND, 50), (3 * SECOND, 100)]
    outcome = simulate(submissions, DEVICE, 100, Told(lambda _: []), budget_changes=changes)
    ends = {e.job: e.at_ns for e in outcome.entries if isinstance(e, ev.IterationEnded)}
    assert ends == {"a": SECOND, "b": 4 * SECOND}
    assert outcome.over_budget_bytes == 0
