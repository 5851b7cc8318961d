"""How jobs join the daemon and leave it, whatever they say and whenever their connection ends."""

from __future__ import annotations

import os

import pytest

from neaptide.core.control.events import (
    Event,
    JobArrived,
    JobFailed,
    JobLeft,
    RequestAnswered,
    RequestArrived,
    RequestCalled,
)
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Request, SlotState
from neaptide.devices.board.figures import ProcessState
from neaptide.live.daemon.registration import MOST_SAMPLES_OF_A_CALL, Registration
from neaptide.live.daemon.requests import MOST_WAITING
from neaptide.live.protocol import messages as say
from scripted_daemon import MIB, ScriptedCaller, World, trace
from tides import tide


def an_honest_job_runs(world: World) -> None:
    member = world.join("honest", trace(10, 20))
    assert world.jobs()["honest"] == "running"
    assert member.wait_permit(0, 0.0)


# --- a job that rejoins is never ended


def test_a_job_that_rejoins_under_a_smaller_budget_waits_in_host_memory_until_the_budget_rises(world: World) -> None:
    member = world.member("a")
    assert member.take(60 * MIB)
    caller = world.greet("a", trace(10, 200))
    assert caller.heard == [say.Welcome(False, "a", 100 * MIB, "everything")]
    assert member.request is Request.EVICT
    (job,) = world.daemon.status().jobs
    assert (job.state, job.reason.partition(";")[0]) == ("queued", "needs 210 MiB and the budget is 100 MiB")
    member.give(60 * MIB)
    member.set_state(SlotState.EVICTED)
    member.finish_request(Request.EVICT)
    an_honest_job_runs(world)
    world.daemon.heard(ScriptedCaller(), say.SetBudget(150 * MIB))
    assert world.jobs()["a"] == "queued"
    world.daemon.heard(ScriptedCaller(), say.SetBudget(250 * MIB))
    assert member.request is Request.RESTORE
    assert world.jobs() == {"a": "running", "honest": "running"}
    assert world.daemon.status().jobs[0].reason == ""


def test_a_job_measured_when_the_budget_was_larger_waits_and_one_that_never_fitted_is_refused(world: World) -> None:
    world.member("a")
    caller = world.greet("a")
    world.daemon.heard(ScriptedCaller(), say.SetBudget(50 * MIB))
    world.daemon.heard(caller, say.Profiled(trace(10, 80)))
    assert world.jobs() == {"a": "queued"}
    world.member("b")
    refused = world.greet("b")
    world.daemon.heard(refused, say.Profiled(trace(10, 80)))
    assert isinstance(refused.heard[-1], say.JobRefused)
    assert world.jobs() == {"a": "queued", "b": "failed"}


def test_a_job_that_fitted_a_budget_since_its_hello_waits_when_the_budget_was_lowered_again(world: World) -> None:
    world.daemon.heard(ScriptedCaller(), say.SetBudget(50 * MIB))
    world.member("a")
    caller = world.greet("a")
    for budget_bytes in (100 * MIB, 50 * MIB):
        world.daemon.heard(ScriptedCaller(), say.SetBudget(budget_bytes))
    world.daemon.heard(caller, say.Profiled(trace(10, 80)))
    assert world.jobs() == {"a": "queued"}
    assert not any(isinstance(said, say.JobRefused) for said in caller.heard)
    world.daemon.heard(ScriptedCaller(), say.SetBudget(100 * MIB))
    assert world.jobs() == {"a": "running"}


def test_a_job_that_waits_for_a_larger_budget_goes_on_when_it_was_measured_smaller(world: World) -> None:
    world.member("a")
    caller = world.greet("a", trace(10, 200))
    world.daemon.heard(caller, say.Profiled(trace(10, 150)))
    assert world.daemon.status().jobs[0].reason.startswith("needs 160 MiB")
    world.daemon.heard(caller, say.Profiled(trace(10, 20)))
    assert world.jobs() == {"a": "running"}


# --- no part of a job is left behind


def test_a_job_that_is_too_large_leaves_nothing_behind_when_it_goes(world: World) -> None:
    world.member("a")
    caller = world.greet("a", trace(10, 200))
    world.members.pop("a").leave()
    world.daemon.lost(caller)
    assert world.jobs() == {"a": "failed"}
    world.daemon.heard(ScriptedCaller(), say.SetBudget(300 * MIB))
    an_honest_job_runs(world)


def test_a_job_that_is_refused_is_not_attached_any_more(world: World) -> None:
    world.member("a")
    refused = world.greet("a", trace(10, 20)[:-9])
    assert [type(answer) for answer in refused.heard] == [say.Welcome, say.JobRefused]
    assert refused.hung_up
    assert world.jobs() == {}
    assert world.greet("a").heard[0] == say.Welcome(True, "a", 100 * MIB, "everything")


@pytest.mark.parametrize("step", ["_write_down", "_arrive"])
@pytest.mark.parametrize("resumed", [True, False])
def test_a_fault_while_a_job_registers_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, resumed: bool
) -> None:
    world.member("a")
    caller = ScriptedCaller()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the daemon")

    with monkeypatch.context() as fault:
        fault.setattr(Registration, step, fail)
        if not resumed:
            world.daemon.heard(caller, world.hello("a"))
        message = world.hello("a", trace(10, 20)) if resumed else say.Profiled(trace(10, 20))
        with pytest.raises(RuntimeError, match="a fault"):
            world.daemon.heard(caller, message)
        world.members.pop("a").leave()
        world.daemon.lost(caller)
    assert world.jobs() == {"a": "failed"}
    an_honest_job_runs(world)


def test_a_fault_while_a_job_is_removed_does_not_keep_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.join("a", trace(10, 20))

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the daemon")

    with monkeypatch.context() as fault:
        fault.setattr(type(world.daemon._status), "remember", fail)
        with pytest.raises(RuntimeError, match="a fault"):
            world.daemon.heard(world.callers["a"], say.Goodbye())
    assert world.jobs() == {}
    an_honest_job_runs(world)


# --- messages of a job that has arrived


@pytest.mark.parametrize("resumed", [True, False])
def test_profiled_from_a_job_that_has_arrived_replaces_what_is_known_of_it(world: World, resumed: bool) -> None:
    world.member("a")
    caller = world.greet("a", trace(10, 20) if resumed else None)
    if not resumed:
        world.daemon.heard(caller, say.Profiled(trace(10, 20)))
    world.daemon.heard(caller, say.Profiled(trace(30, 40)))
    assert [job.needs_bytes for job in world.daemon.status().jobs] == [70 * MIB]
    world.members.pop("a").leave()
    world.daemon.lost(caller)
    an_honest_job_runs(world)


@pytest.mark.parametrize(
    "message",
    [
        say.RequestArrived(),  # it trains
        say.StatusRequest(),
        say.SetBudget(50 * MIB),
        say.IterationEnded(7, 1.0, 1, 1),  # which has not begun
        say.IterationEnded(2**32 - 1, 1.0, 1, 1),
    ],
)
def test_a_message_that_a_job_in_its_place_does_not_send_is_out_of_place(world: World, message: say.ToDaemon) -> None:
    world.join("a", trace(10, 20))
    with pytest.raises(say.ProtocolError):
        world.daemon.heard(world.callers["a"], message)
    with pytest.raises(say.ProtocolError):
        world.daemon.heard(world.callers["a"], world.hello("a"))


# --- who a job is


def test_a_hello_in_the_name_of_another_process_is_refused(world: World) -> None:
    member = world.member("a")
    caller = ScriptedCaller()
    caller.peer_pid = os.getppid()
    world.daemon.heard(caller, say.Hello(pid=os.getpid(), slot=member.slot, job="a"))
    (answer,) = caller.heard
    assert isinstance(answer, say.JobRefused)
    assert answer.reason.endswith("its connection comes from another process")
    assert caller.hung_up
    assert world.jobs() == {}


def test_the_newest_connection_of_a_process_replaces_its_older_ones(world: World) -> None:
    member = world.join("a", trace(10, 20))
    older = world.callers["a"]
    newer = [world.greet("a", trace(10, 20)) for _ in range(3)]
    assert [line.hung_up for line in (older, *newer)] == [True, True, True, False]
    for line in (older, *newer[:2]):
        world.daemon.lost(line)  # their ends are noticed afterwards
    world.clock.pass_seconds(2.0)
    assert world.jobs() == {"a": "running"}
    member.begin_iteration()
    world.end_iteration("a", 0)
    assert world.daemon.status().jobs[0].iterations_done == 1
    assert [type(entry) for entry in world.entries() if isinstance(entry, JobArrived | JobLeft | JobFailed)] == [
        JobArrived,
        *[JobLeft, JobArrived] * 3,
    ]


# --- how a job ends


@pytest.mark.parametrize(
    ("said", "shown"), [("KeyboardInterrupt", ("interrupted", "")), ("KeyError: 'x'", ("failed", "KeyError: 'x'"))]
)
def test_a_job_that_its_user_interrupted_has_not_failed(world: World, said: str, shown: tuple[str, str]) -> None:
    world.join("a", trace(10, 20))
    world.daemon.heard(world.callers["a"], say.Failed(said))
    (job,) = world.daemon.status().jobs
    assert (job.state, job.reason) == shown


def test_a_job_whose_connection_ends_while_its_process_lives_has_not_failed(world: World) -> None:
    world.join("a", trace(10, 20))
    world.daemon.lost(world.callers["a"])
    world.clock.pass_seconds(1.0)
    assert world.jobs() == {}
    assert not [entry for entry in world.entries() if isinstance(entry, JobFailed)]
    world.greet("a", trace(10, 20))
    assert world.jobs() == {"a": "running"}


def test_a_job_that_joins_again_before_its_end_was_decided_stays(world: World) -> None:
    world.join("a", trace(10, 20))
    world.daemon.lost(world.callers["a"])
    world.clock.pass_seconds(0.01)
    world.greet("a", trace(10, 20))
    world.clock.pass_seconds(2.0)
    assert world.jobs() == {"a": "running"}


def test_a_killed_process_that_takes_a_moment_to_end_has_failed(world: World) -> None:
    world.join("a", trace(10, 20))
    world.daemon.lost(world.callers["a"])
    world.clock.pass_seconds(0.003)
    world.state = ProcessState.GONE
    world.clock.pass_seconds(0.1)
    (job,) = world.daemon.status().jobs
    assert (job.state, job.reason) == ("failed", "its process ended without a word")


def test_a_job_whose_goodbye_is_read_after_its_slot_was_left_has_not_failed(world: World) -> None:
    world.join("a", trace(10, 20))
    caller = world.callers["a"]
    world.members.pop("a").leave()
    world.clock.pass_seconds(0.55)  # a look at the slots comes before the socket is read
    world.daemon.heard(caller, say.Goodbye())
    assert world.jobs() == {"a": "done"}


@pytest.mark.parametrize("gone", ["process", "slot"])
def test_a_job_whose_process_or_slot_is_gone_is_removed_though_its_connection_stays(world: World, gone: str) -> None:
    world.join("a", trace(10, 20))
    caller = world.callers["a"]
    if gone == "slot":
        world.members.pop("a").leave()
    else:
        world.state = ProcessState.GONE
    world.clock.pass_seconds(1.0)
    assert world.jobs() == {"a": "failed"}
    assert caller.hung_up
    world.state = ProcessState.RUNNING
    an_honest_job_runs(world)


# --- requests


def serving(world: World, batch: int, deadline_seconds: float | None = None) -> ScriptedCaller:
    member, caller = world.member("s"), ScriptedCaller()
    served = encode(tide("s", 50, 0.004, 10 * MIB, 20 * MIB, batch=batch, inference=True))
    hello = say.Hello(
        pid=os.getpid(), slot=member.slot, job="s", kind=JobKind.INFERENCE, deadline_seconds=deadline_seconds
    )
    world.daemon.heard(caller, hello)
    world.daemon.heard(caller, say.Profiled(served))
    return caller


def test_a_request_of_any_batch_is_one_event_with_a_count(world: World) -> None:
    caller = serving(world, 10**7)
    world.daemon.heard(caller, say.RequestArrived())
    (arrived,) = [entry for entry in world.entries() if isinstance(entry, RequestArrived)]
    assert arrived.count == MOST_SAMPLES_OF_A_CALL
    account = world.daemon._controller.ledger.account("s")
    assert (len(account.serving), len(account.requests)) == (MOST_SAMPLES_OF_A_CALL, 0)


def test_more_requests_than_a_server_ever_has_are_a_protocol_error(world: World) -> None:
    caller = serving(world, 10**7)
    for _ in range(MOST_WAITING // MOST_SAMPLES_OF_A_CALL + 1):
        world.daemon.heard(caller, say.RequestArrived())
    with pytest.raises(say.ProtocolError, match="samples wait"):
        world.daemon.heard(caller, say.RequestArrived())


def requests_of(world: World) -> list[Event]:
    kinds = (RequestArrived, RequestCalled, RequestAnswered)
    return [entry for entry in world.entries() if isinstance(entry, kinds)]


def test_a_request_counts_from_when_it_reached_the_program_to_its_answer(world: World) -> None:
    caller = serving(world, 1)
    world.clock.pass_seconds(1.0)
    began_ns = world.clock.now_ns()
    world.daemon.heard(caller, say.RequestExpected(7))
    world.clock.pass_seconds(0.25)
    world.daemon.heard(caller, say.RequestCalled(7, 250_000_000, joins=False))
    world.clock.pass_seconds(0.25)
    world.daemon.heard(caller, say.RequestAnswered(7, 500_000_000))
    arrived, called, answered = requests_of(world)
    assert arrived == RequestArrived(began_ns, "s", arrived_ns=began_ns, expected=True, tracked=True)
    assert called == RequestCalled(began_ns + 250_000_000, "s", began_ns)
    assert answered == RequestAnswered(began_ns + 500_000_000, "s", began_ns, 500_000_000)


def test_a_request_that_is_announced_at_its_call_has_waited_as_long_as_it_says(world: World) -> None:
    caller = serving(world, 1)
    world.clock.pass_seconds(1.0)
    now_ns = world.clock.now_ns()
    world.daemon.heard(caller, say.RequestCalled(1, 400_000_000, joins=False))
    assert requests_of(world) == [RequestArrived(now_ns, "s", arrived_ns=now_ns - 400_000_000, tracked=True)]
    assert world.daemon._controller.ledger.account("s").serving == (now_ns - 400_000_000,)


def test_a_request_that_the_program_read_late_has_waited_since_it_reached_the_machine(world: World) -> None:
    caller = serving(world, 1)
    world.clock.pass_seconds(1.0)
    now_ns = world.clock.now_ns()
    world.daemon.heard(caller, say.RequestExpected(1, waited_ns=60_000_000))
    (arrived,) = requests_of(world)
    assert isinstance(arrived, RequestArrived)
    assert arrived.arrived_ns == now_ns - 60_000_000


def test_a_deadline_that_cannot_be_met_even_alone_is_said_with_the_time_of_a_request(world: World) -> None:
    serving(world, 1, deadline_seconds=1e-6)
    reason = world.daemon.status().jobs[0].reason
    assert reason.startswith("its SLO of 1.00 us cannot be met: a request takes ")
    assert reason.endswith(" alone")


def test_a_request_with_a_deadline_of_its_own_is_due_then(world: World) -> None:
    caller = serving(world, 1, deadline_seconds=0.3)
    world.clock.pass_seconds(1.0)
    now_ns = world.clock.now_ns()
    world.daemon.heard(caller, say.RequestExpected(1, deadline_ns=100_000_000))
    (arrived,) = requests_of(world)
    assert isinstance(arrived, RequestArrived)
    assert arrived.arrived_ns == now_ns + 100_000_000 - 300_000_000


def test_the_answer_to_a_request_that_an_earlier_daemon_knew_changes_nothing(world: World) -> None:
    caller = serving(world, 1)
    world.daemon.heard(caller, say.RequestAnswered(3, 5))
    assert requests_of(world) == []


def test_requests_that_join_an_iteration_have_none_of_their_own(world: World) -> None:
    caller = serving(world, 1)
    world.daemon.heard(caller, say.RequestCalled(1, 0, joins=False))
    world.daemon.heard(caller, say.RequestCalled(2, 0, joins=True))
    account = world.daemon._controller.ledger.account("s")
    assert (len(account.serving), account.requests, account.expected) == (2, [], [])


def test_the_permit_of_a_call_that_launched_nothing_is_taken_back(world: World) -> None:
    caller = serving(world, 1)
    world.daemon.heard(caller, say.RequestArrived())
    assert world.jobs() == {"s": "running"}
    world.daemon.heard(caller, say.CallWithdrawn())
    assert world.jobs() == {"s": "ready"}
    assert not world.members["s"].wait_permit(0, 0.0)
    world.daemon.heard(caller, say.RequestArrived())
    assert world.jobs() == {"s": "running"}
    assert world.members["s"].wait_permit(0, 0.0)
    assert not world.members["s"].wait_permit(1, 0.0)


def test_a_permit_that_the_next_call_has_used_is_that_calls(world: World) -> None:
    caller, member = serving(world, 1), world.members["s"]
    world.daemon.heard(caller, say.RequestCalled(1, 0, joins=False))
    assert member.wait_permit(member.begin_iteration(), 0.0)  # before the daemon reads what comes now
    world.daemon.heard(caller, say.CallWithdrawn())
    world.daemon.heard(caller, say.RequestCalled(2, 0, joins=False))
    world.daemon.heard(caller, say.IterationEnded(0, 1.0, 0, 5))
    assert world.jobs() == {"s": "ready"}
    account = world.daemon._controller.ledger.account("s")
    assert (len(account.answering), account.requests, account.serving) == (2, [], ())


def test_a_call_that_waits_for_its_permit_gets_it_though_its_request_was_answered(world: World) -> None:
    caller, member = serving(world, 1), world.members["s"]
    world.daemon.heard(caller, say.RequestCalled(1, 0, joins=False))
    assert member.wait_permit(member.begin_iteration(), 0.0)
    world.daemon.heard(caller, say.RequestCalled(2, 0, joins=False))  # by another thread, when the first one has ended
    world.daemon.heard(caller, say.RequestAnswered(2, 9))  # its client had waited long enough
    world.daemon.heard(caller, say.IterationEnded(0, 1.0, 0, 5))
    assert member.wait_permit(member.begin_iteration(), 0.0)


def test_an_iteration_that_ran_without_a_start_leaves_none_to_its_request(world: World) -> None:
    world.join("a", trace(10, 95))  # its iteration has the memory
    caller, member = serving(world, 1), world.members["s"]
    world.daemon.heard(caller, say.RequestArrived())
    member.begin_iteration()  # while the daemon was silent
    world.daemon.heard(caller, say.IterationEnded(0, 1.0, 0, 5))
    assert world.daemon._controller.ledger.account("s").requests == []


# --- what a job is told, and who is shown


def test_a_job_is_told_the_name_that_it_has_the_budget_and_the_policy(world: World) -> None:
    world.join("a", trace(10, 20))
    second = world.member("second")
    caller = ScriptedCaller()
    world.daemon.heard(caller, say.Hello(pid=os.getpid(), slot=second.slot, job="a"))
    assert caller.heard[0] == say.Welcome(True, "a-2", 100 * MIB, "everything")


def test_a_process_that_is_not_shared_is_shown_with_its_reason_until_its_connection_ends(world: World) -> None:
    caller = ScriptedCaller()
    world.daemon.heard(caller, say.NotShared(5, "a", "its torch works on the CPU"))
    (shown,) = world.daemon.status().jobs
    assert (shown.name, shown.pid, shown.state, shown.reason) == ("a", 5, "not shared", "its torch works on the CPU")
    world.daemon.lost(caller)
    assert world.daemon.status().jobs == ()


def test_jobs_of_similar_names_have_traces_of_their_own(world: World) -> None:
    for name in ("a b", "a_b", "a", "a.1"):
        world.join(name, trace(10, 20))
    world.daemon.heard(world.callers["a"], say.Profiled(trace(10, 20)))  # measured again
    names = [path.name for path in world.paths.traces.iterdir()]
    assert sorted(names) == ["a%1.trace", "a%20;b.trace", "a.1.trace", "a.trace", "a_b.trace"]
