"""Two of the same network: when the second had better start after the other's forward pass."""

from neaptide.core.control.job import JobState
from neaptide.core.control.view import JobView
from neaptide.core.traces.profile import Profile
from neaptide.policies.neaptide import Neaptide
from neaptide.policies.parts.replicas import in_step, should_follow_forward
from views import job, tide, view

MS = 1_000_000


def network(forward_utilisation: float | None = None, name: str = "network") -> Profile:
    """Of ten steps, half of them forward; the tide is at half of its height after one of these five."""
    levels = (20, 40, 50, 50, 60, 60, 50, 40, 20, 10)
    return tide(*levels, step_ns=MS, name=name, utilisation=0.5, forward_utilisation=forward_utilisation)


def running(profile: Profile, position_ns: int = 0) -> JobView:
    return job("running", profile, state=JobState.RUNNING, position_ns=position_ns)


def better(profile: Profile, other: JobView, free_bytes: int = 90) -> bool:
    return should_follow_forward(job("next", profile), other, free_bytes, 16)


def test_a_replica_starts_after_the_forward_pass_of_the_other() -> None:
    assert better(network(), running(network()))
    assert better(network(), running(network(), 5 * MS - 1))
    assert not better(network(), running(network(), 5 * MS))


def test_a_job_of_another_network_does_not_wait_for_the_forward_pass() -> None:
    assert not in_step(job("next", network(name="another")), running(network()))
    assert not better(network(name="another"), running(network()))


def test_a_replica_starts_early_if_its_forward_pass_uses_far_less_of_the_device_than_the_rest() -> None:
    assert better(network(0.40), running(network(0.40)))  # the rest asks for 0.6: two thirds of it
    assert not better(network(0.38), running(network(0.38)))


def test_a_replica_starts_early_if_it_can_do_half_of_its_forward_pass_before_it_waits() -> None:
    assert better(network(), running(network()), free_bytes=109)  # 50 are too much: after two of five steps
    assert not better(network(), running(network()), free_bytes=110)  # only 60 are


def test_the_policy_does_not_start_a_replica_early() -> None:
    both = [running(network(), 4 * MS), job("next", network(), iterations_done=3)]
    starts = [type(action).__name__ for action in Neaptide().decide(view(*both, budget=90))]
    assert "Start" not in starts
    both[0] = running(network(), 5 * MS)
    starts = [type(action).__name__ for action in Neaptide().decide(view(*both, budget=90))]
    assert "Start" in starts
