from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.job import JobKind, JobState
from neaptide.policies.spatial import Spatial, SpatialPaged
from views import job, tide, view

QUEUED, READY, RUNNING = JobState.QUEUED, JobState.READY, JobState.RUNNING


def test_each_job_has_its_own_peak_as_its_part_and_all_run_at_once() -> None:
    seen = view(job("a", tide(40, 5), state=QUEUED), job("b", tide(5, 40, persistent=20), state=QUEUED), budget=100)
    assert Spatial().decide(seen) == [
        Admit("a", ceiling_bytes=40),
        Admit("b", ceiling_bytes=60),
        Start("a"),
        Start("b"),
    ]


def test_the_part_of_an_idle_job_is_not_lent_to_others() -> None:
    idle = job("a", tide(60), state=RUNNING, held_bytes=0)
    assert Spatial().decide(view(idle, job("b", tide(50), state=QUEUED))) == []


def test_no_job_overtakes_one_that_waits_for_its_part_unless_that_one_never_fits() -> None:
    inside, waits = job("a", tide(60), state=RUNNING), job("b", tide(50), state=QUEUED)
    small, never = job("c", tide(1), state=QUEUED), job("d", tide(101), state=QUEUED)
    assert Spatial().decide(view(inside, waits, small)) == []
    assert Spatial().decide(view(inside, never, small)) == [Admit("c", ceiling_bytes=1), Start("c")]


def test_equal_parts_are_given_whatever_a_job_needs() -> None:
    seen = view(job("a", tide(80), state=QUEUED), job("b", state=QUEUED), job("c", state=QUEUED), budget=100)
    assert Spatial(parts=2).decide(seen) == [
        Admit("a", ceiling_bytes=50),
        Admit("b", ceiling_bytes=50),
        Start("a"),
        Start("b"),
    ]


def test_with_paging_every_job_is_admitted_and_runs() -> None:
    big = [job(name, tide(90), state=QUEUED) for name in "ab"]
    seen = view(*big, job("c", state=READY), job("serve", state=QUEUED, kind=JobKind.INFERENCE))
    assert SpatialPaged().decide(seen) == [
        Admit("a"),
        Admit("b"),
        Admit("serve"),
        Start("c"),
        Start("a"),
        Start("b"),
    ]
    assert SpatialPaged.oversubscribes
