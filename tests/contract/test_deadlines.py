"""Requests beside training under `neaptide`: who leaves the device to whom, and for how long.

All ops take 4 ms alone and fill the device; a request is four of them.
"""

from __future__ import annotations

import pytest

from contract.engines import engines
from contract.world import MS, SMS, Engine, Facts, Scene, Step, Tide
from neaptide.core.control.actions import SetGate, Start
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted, JobStalled
from neaptide.core.control.job import JobKind
from neaptide.policies.neaptide import Neaptide

VIRTUAL = engines(soft="the worked times need ops of known length")
SERVICE_MS, OP_MS = 16, 4


def server(requests: int, deadline: float | None, **facts: object) -> Tide:
    return Tide(
        name="serve",
        steps=(Step(1, OP_MS * MS, width=SMS),) * 4,
        kind=JobKind.INFERENCE,
        requests=tuple(n * 50 * MS for n in range(requests)),
        deadline_seconds=deadline,
        **facts,  # type: ignore[arg-type]
    )


def training(iterations: int = 4, **facts: object) -> Tide:
    steps = (Step(1, OP_MS * MS, width=SMS),) * 8
    return Tide(name="train", steps=steps, iterations=iterations, **facts)  # type: ignore[arg-type]


def took_ms(facts: Facts) -> list[float]:
    return [event.took_ns / 1e6 for event in facts.events(IterationEnded, "serve")]


def gates(facts: Facts) -> list[bool]:
    """How the gate of the training was set, in order."""
    changes = [entry.action for entry in facts.entries if isinstance(entry, Decided)]
    return [each.open for each in changes if isinstance(each, SetGate) and each.job == "train"]


@VIRTUAL
def test_a_latency_critical_request_waits_for_at_most_one_op_of_the_training(engine: Engine) -> None:
    tides = [server(4, None, latency_critical=True), training()]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Neaptide()))
    facts.check_all_ended()
    assert max(took_ms(facts)) <= SERVICE_MS + OP_MS + 1
    assert False in gates(facts)


@VIRTUAL
def test_light_ops_of_the_training_leave_the_device_to_a_latency_critical_request_too(engine: Engine) -> None:
    light = Tide(name="train", steps=(Step(1, OP_MS * MS),) * 8, iterations=12)
    facts = engine.run(Scene(tides=[server(4, None, latency_critical=True), light], budget=40, policy=Neaptide()))
    facts.check_all_ended()
    (end,) = facts.events(JobEnded, "train")
    assert max(took_ms(facts)) <= SERVICE_MS + OP_MS + 1
    began = facts.decided(Start, "train")[0]
    assert (end.at_ns - began.at_ns) / 1e6 >= 12 * 8 * OP_MS + 4 * (SERVICE_MS - OP_MS)


@VIRTUAL
def test_deadlines_that_leave_time_for_a_request_and_an_op_are_kept(engine: Engine) -> None:
    tides = [server(4, 30 * MS), training()]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Neaptide()))
    facts.check_all_ended()
    assert max(took_ms(facts)) <= 30


@engines()
def test_the_gates_open_when_no_request_is_there_and_all_jobs_end(engine: Engine) -> None:
    tides = [server(3, 20 * MS), training()]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Neaptide()))
    facts.check_all_ended()
    set_to = gates(facts)
    assert not set_to or set_to[-1]


@pytest.mark.parametrize("deadline", [None, 20 * MS], ids=["latency-critical", "slo"])
@engines(
    simulator="it has no processes that can be stopped",
    fake="an op of a job that is stopped stays on the fake device, and a deadline job's op goes before all others",
)
def test_a_stopped_server_does_not_hold_the_training(engine: Engine, deadline: float | None) -> None:
    tides = [server(3, deadline, latency_critical=deadline is None, stops_in=1), training(12)]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Neaptide()))
    facts.check_all_ended()


@engines(simulator="it knows what iterations need")
def test_requests_that_need_more_than_was_measured_get_it_beside_training(engine: Engine) -> None:
    grows = Tide(
        name="serve",
        steps=(Step(2), Step(4), Step(2)),
        kind=JobKind.INFERENCE,
        requests=(0.0,) * 6,
        deadline_seconds=50 * MS,
        more=3,
        more_in=range(2, 4),
    )
    trains = Tide(name="train", steps=(Step(2), Step(4), Step(2)), iterations=12)
    facts = engine.run(Scene(tides=[grows, trains], budget=10, policy=Neaptide()))
    facts.check_all_ended()


@VIRTUAL
def test_a_request_finds_its_memory_ready_however_many_jobs_train(engine: Engine) -> None:
    serves = Tide(
        name="serve",
        steps=(Step(4, OP_MS * MS),) * 2,
        kind=JobKind.INFERENCE,
        requests=tuple(n * 30 * MS for n in range(6)),
        deadline_seconds=30 * MS,
    )
    trains = [Tide(name=name, steps=(Step(4, OP_MS * MS),) * 8, iterations=6) for name in ("one", "two")]
    facts = engine.run(Scene(tides=[serves, *trains], budget=12, policy=Neaptide()))
    facts.check_all_ended()
    assert not facts.events(JobStalled, "serve")
    assert not facts.events(JobEvicted)
