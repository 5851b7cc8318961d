"""The rules of the policies that divide the device's compute, each in a small case worked out by hand.

All ops take 4 ms alone. On `soft`, how long an op takes depends on the machine: there a test shows the rule without
times, if it can.
"""

from __future__ import annotations

import pytest

from contract.engines import engines
from contract.world import MS, SMS, Engine, Facts, Scene, Step, Tide
from neaptide.core.control.actions import Admit
from neaptide.core.control.events import IterationEnded, JobEnded
from neaptide.core.control.job import JobKind
from neaptide.core.control.policy import Policy
from neaptide.policies.gslice import Gslice
from neaptide.policies.herald import Herald
from neaptide.policies.mig import Mig
from neaptide.policies.mps import Mps
from neaptide.policies.switchflow import SwitchFlow

VIRTUAL = engines(soft="the worked times need ops of known length")


def job(name: str, width: int, ops: int = 4, **facts: object) -> Tide:
    return Tide(name=name, steps=(Step(1, 4 * MS, width=width),) * ops, **facts)  # type: ignore[arg-type]


def server(name: str, deadline: float, requests: int, width: int = SMS, ops: int = 1) -> Tide:
    times = tuple(n * 50 * MS for n in range(requests))
    return job(name, width, ops, kind=JobKind.INFERENCE, requests=times, deadline_seconds=deadline)


def ends_ms(facts: Facts) -> dict[str, int]:
    """When the first iteration of each job ended, from when the first one started."""
    events = facts.events(IterationEnded)
    begun = min(event.at_ns - event.took_ns for event in events)
    return {event.job: round((event.at_ns - begun) / 1e6) for event in reversed(events)}


def took_ms(facts: Facts, name: str) -> list[float]:
    return [event.took_ns / 1e6 for event in facts.events(IterationEnded, name)]


@VIRTUAL
def test_under_herald_light_ops_run_beside_inference_and_heavy_ones_wait_for_its_heavy_ops(engine: Engine) -> None:
    tides = [server("serve", 1, 1, ops=4), job("light", 1), job("heavy", SMS)]
    ends = ends_ms(engine.run(Scene(tides=tides, budget=40, policy=Herald())))
    assert ends["serve"] <= 21  # 16 ms alone, beside at most one op that had begun
    assert ends["light"] <= 41
    assert ends["heavy"] >= ends["serve"] + 12


@pytest.mark.parametrize(("policy", "slower"), [(Mps(best_effort=0.5), 2), (Mig(), 7 / 3)], ids=["mps", "mig"])
@engines()
def test_under_mps_and_mig_a_job_that_fills_the_device_has_its_share_of_it_at_all_times(
    engine: Engine, policy: Policy, slower: float
) -> None:
    tides = [job(name, SMS, iterations=2) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=20, policy=policy))
    facts.check_all_ended()
    assert {seen.share for name in "ab" for _, seen in facts.seen(name) if seen.admitted} == {1 / slower}
    if engine.name != "soft":
        assert took_ms(facts, "a")[0] == pytest.approx(16 * slower, rel=0.03)


@engines()
def test_under_mig_a_third_job_waits_for_an_instance(engine: Engine) -> None:
    tides = [job("a", 1), job("b", 1, ops=8), job("c", 1)]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Mig()))
    facts.check_all_ended()
    assert max(len(view.admitted) for view in facts.views) == 2
    assert facts.place(facts.events(JobEnded)[0]) < facts.place(facts.decided(Admit)[-1])
    if engine.name != "soft":
        assert max(ends_ms(facts).values()) >= 16 + 15


@pytest.mark.parametrize("width", [1, SMS], ids=["light", "heavy"])
@engines()
def test_under_switchflow_the_device_never_works_for_two_jobs(engine: Engine, width: int) -> None:
    facts = engine.run(Scene(tides=[job("a", width), job("b", width)], budget=20, policy=SwitchFlow()))
    facts.check_all_ended()
    if engine.name != "soft":
        assert ends_ms(facts) == {"a": 16, "b": 32}
        return
    # On `soft` a job notes the time after each op, and once more when its iteration has ended.
    first, second = sorted([at_ns for at_ns, _ in facts.held[name]][:-1] for name in "ab")
    assert (len(first), len(second)) == (4, 4)
    assert first[-1] < second[0]


@VIRTUAL
def test_under_switchflow_inference_takes_the_device_at_the_next_op(engine: Engine) -> None:
    facts = engine.run(Scene(tides=[job("train", SMS, ops=8), server("serve", 1, 1)], budget=20, policy=SwitchFlow()))
    facts.check_all_ended()
    ends = ends_ms(facts)
    assert ends["serve"] <= 8
    assert ends["train"] == pytest.approx(36, abs=1)


@VIRTUAL
def test_under_gslice_the_share_of_a_late_server_grows_until_it_is_in_time(engine: Engine) -> None:
    # An op of 4 ms takes 8 ms on half of the SMs: too long for 6 ms, which 0.7 of the SMs keep (5.7 ms).
    facts = engine.run(Scene(tides=[server("serve", 6 * MS, 12), job("train", 1, 2)], budget=20, policy=Gslice(high=1)))
    facts.check_all_ended()
    took = took_ms(facts, "serve")
    assert took[0] == pytest.approx(8, rel=0.03)
    assert max(took[-2:]) <= 6
    shares = [seen.share for _, seen in facts.seen("serve")]
    assert shares[-1] == pytest.approx(0.7, abs=0.051)
