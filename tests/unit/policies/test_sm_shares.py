"""The policies that divide the SMs: MPS with a limit, MIG, GSLICE; and SwitchFlow, which gives them to one job."""

from __future__ import annotations

import pytest

from neaptide.core.control.actions import Admit, SetGate, SetShare, Start
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.gslice import Gslice
from neaptide.policies.mig import Mig
from neaptide.policies.mps import Mps
from neaptide.policies.switchflow import SwitchFlow
from views import job, tide, view

QUEUED, READY, RUNNING = JobState.QUEUED, JobState.READY, JobState.RUNNING


def server(name: str, share: float | None, **facts: object) -> JobView:
    given = {"kind": JobKind.INFERENCE, "deadline_ns": 100, "share": share, "state": READY, **facts}
    return job(name, tide(10), **given)  # type: ignore[arg-type]


class TestMps:
    def test_best_effort_jobs_are_limited_and_jobs_with_a_deadline_are_not(self) -> None:
        seen = view(job("t", tide(10), state=QUEUED), server("s", None, state=QUEUED))
        assert Mps(best_effort=0.3).decide(seen) == [
            Admit("t", ceiling_bytes=10),
            Admit("s", ceiling_bytes=10),
            Start("t"),
            SetShare("t", 0.3),
        ]

    def test_a_share_is_set_once(self) -> None:
        assert Mps(best_effort=0.3).decide(view(job("t", state=RUNNING, share=0.3))) == []


class TestMig:
    def test_each_of_two_jobs_has_three_sevenths_of_the_sms_and_half_of_the_memory(self) -> None:
        seen = view(job("a", tide(50), state=QUEUED), job("b", tide(5), state=QUEUED), job("c", state=QUEUED))
        assert Mig().decide(seen) == [
            Admit("a", ceiling_bytes=50),
            Admit("b", ceiling_bytes=50),
            Start("a"),
            Start("b"),
            SetShare("a", 3 / 7),
            SetShare("b", 3 / 7),
        ]

    def test_a_job_larger_than_an_instance_waits_for_the_whole_device(self) -> None:
        inside, large = job("a", tide(5), state=RUNNING, share=3 / 7), job("b", tide(51), state=QUEUED)
        assert Mig().decide(view(inside, large, job("c", state=QUEUED))) == []
        assert Mig().decide(view(large, job("c", state=QUEUED))) == [Admit("b", ceiling_bytes=100), Start("b")]
        assert Mig().decide(view(job("b", tide(51), state=RUNNING), job("c", state=QUEUED))) == []

    def test_other_numbers_of_instances_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"instances must be one of 1, 2, 3, 7, not 4"):
            Mig(instances=4)


class TestGslice:
    def ended(self, took: int) -> IterationEnded:
        return IterationEnded(took, "s", took, arrivals_ns=(0,))

    @pytest.mark.parametrize(("took", "share"), [(101, 0.55), (70, 0.5), (40, 0.45)])
    def test_the_share_of_a_server_follows_its_latency(self, took: int, share: float) -> None:
        seen = view(server("s", 0.5), job("t", state=RUNNING, share=0.5), now=took, event=self.ended(took))
        changes = {action.job: action.share for action in Gslice().decide(seen) if isinstance(action, SetShare)}
        assert changes == ({} if share == 0.5 else {"s": pytest.approx(share), "t": pytest.approx(1 - share)})

    def test_servers_that_want_more_than_the_device_are_cut_alike(self) -> None:
        late = server("s", 0.6), server("u", 0.6)
        shares = [action.share for action in Gslice().decide(view(*late)) if isinstance(action, SetShare)]
        assert shares == [pytest.approx(0.5), pytest.approx(0.5)]

    def test_training_alone_has_the_whole_device(self) -> None:
        assert Gslice().decide(view(job("t", state=RUNNING, share=0.5))) == [SetShare("t", None)]


class TestSwitchFlow:
    def test_all_jobs_begin_and_the_device_passes_the_ops_of_the_first(self) -> None:
        seen = view(job("a", tide(10), state=QUEUED), job("b", tide(10), state=QUEUED))
        assert SwitchFlow().decide(seen) == [
            Admit("a"),
            Admit("b"),
            SetGate("b", False, holds_light=True),  # before it can launch anything
            Start("a"),
            Start("b"),
        ]

    def test_the_next_iteration_owns_the_device_when_the_owner_has_ended(self) -> None:
        waits = job("b", tide(10), state=RUNNING, started_ns=1, gate_open=False)
        ready = job("a", tide(10), state=READY, started_ns=1, since_ns=5)
        assert SwitchFlow().decide(view(ready, waits, now=5)) == [
            SetGate("a", False, holds_light=True),
            Start("a"),
            SetGate("b", True, holds_light=True),
        ]

    def test_a_job_with_a_deadline_takes_the_device_from_its_owner(self) -> None:
        owner = job("t", tide(10), state=RUNNING, started_ns=1)
        assert SwitchFlow().decide(view(owner, server("s", None, requests=(5,)), now=5)) == [
            SetGate("t", False, holds_light=True),
            Start("s"),
        ]

    def test_an_iteration_that_would_keep_memory_from_the_owner_does_not_begin(self) -> None:
        owner = job("a", tide(60), state=RUNNING, started_ns=1)
        assert SwitchFlow().decide(view(owner, job("b", tide(50), state=READY), now=5)) == []

    def test_what_an_admitted_job_keeps_between_iterations_counts_once(self) -> None:
        owner = job("a", tide(30, persistent=20), state=RUNNING, started_ns=1)
        ready = job("b", tide(30, persistent=20), state=READY, gate_open=False)
        assert SwitchFlow().decide(view(owner, ready, now=5)) == [Start("b")]
