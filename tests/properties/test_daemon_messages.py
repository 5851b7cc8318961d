"""Whatever jobs say, in whatever order, and whenever their connections end: the daemon keeps no part of a job."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from board_member import Member
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.devices.board import Request, SlotState
from neaptide.live.protocol import messages as say
from scripted_daemon import MIB, ScriptedCaller, World, trace

TRACES = {"small": trace(10, 20), "large": trace(40, 55), "too large": trace(10, 300), "damaged": trace(10, 20)[:-9]}
NAMES = ("a", "b", "c")

messages = st.one_of(
    st.builds(say.Profiled, st.sampled_from(sorted(TRACES)).map(TRACES.__getitem__), st.integers(0, 5)),
    st.builds(say.IterationEnded, st.sampled_from([0, 0, 0, 1, 2, 2**32 - 1]), st.just(1.0), st.integers(0, 10**9)),
    st.builds(say.PhaseEnded, st.sampled_from(Phase)),
    st.builds(say.Grew, st.sampled_from([MIB, 60 * MIB, 300 * MIB])),
    st.builds(say.Failed, st.just("it failed")),
    st.builds(say.SetBudget, st.sampled_from([1, 50 * MIB, 100 * MIB, 400 * MIB])),
    st.sampled_from([say.RequestArrived(), say.Goodbye(), say.StatusRequest()]),
    st.builds(say.RequestExpected, st.integers(1, 3), st.sampled_from([None, 10**9])),
    st.builds(say.RequestCalled, st.integers(1, 3), st.sampled_from([0, 10**15]), st.booleans()),
    st.builds(say.RequestAnswered, st.integers(1, 3), st.integers(0, 10**9)),
)


class AnyMessages(RuleBasedStateMachine):
    """Three processes with slots on the board, and any number of connections."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="neaptide-"))
        self.world = World(self.folder)
        self.open: list[ScriptedCaller] = []
        self.ended: dict[object, int] = {}  # connections, and when they ended

    # --- what happens

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(JobKind))
    def a_process_begins(self, name: str, kind: JobKind) -> None:
        if name not in self.world.members:
            self.world.member(name)
            self.connect(name, None, kind, 0)

    @precondition(lambda self: self.world.members)
    @rule(
        data=st.data(),
        trace=st.sampled_from([None, *TRACES]),
        kind=st.sampled_from(JobKind),
        another=st.sampled_from([0, 0, 0, 1]),
    )
    def a_process_connects(self, data: st.DataObject, trace: str | None, kind: JobKind, another: int) -> None:
        self.connect(data.draw(st.sampled_from(sorted(self.world.members))), trace, kind, another)

    def connect(self, name: str, trace: str | None, kind: JobKind, another: int) -> None:
        hello = say.Hello(
            pid=os.getpid() + another,
            slot=self.world.members[name].slot,
            job="job" if another else name,
            kind=kind,
            resumed=trace is not None,
            trace=None if trace is None else TRACES[trace],
        )
        self.open.append(ScriptedCaller())
        self.hear(self.open[-1], hello)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), message=messages)
    def a_connection_says_anything(self, data: st.DataObject, message: say.ToDaemon) -> None:
        self.hear(data.draw(st.sampled_from(self.open)), message)

    def hear(self, caller: ScriptedCaller, message: say.ToDaemon) -> None:
        """As the server does: a message that is out of place ends its connection."""
        try:
            self.world.daemon.heard(caller, message)
        except say.ProtocolError:
            self.end(caller)
        for line in [line for line in self.open if line.hung_up]:
            self.end(line)

    def end(self, caller: ScriptedCaller) -> None:
        self.open.remove(caller)
        self.ended[caller] = self.world.clock.now_ns()
        self.world.daemon.lost(caller)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_connection_ends(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.world.members)
    @rule(data=st.data())
    def a_process_ends(self, data: st.DataObject) -> None:
        self.world.members.pop(data.draw(st.sampled_from(sorted(self.world.members)))).leave()

    @precondition(lambda self: self.world.members)
    @rule(data=st.data())
    def a_process_begins_an_iteration_or_moves_its_memory(self, data: st.DataObject) -> None:
        member = self.world.members[data.draw(st.sampled_from(sorted(self.world.members)))]
        if (request := member.request) is Request.NONE:
            member.begin_iteration()
        else:
            member.set_state(SlotState.EVICTED if request in (Request.EVICT, Request.SUSPEND) else SlotState.RUNNING)
            member.finish_request(request)

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.pass_seconds(seconds)

    # --- what holds

    @invariant()
    def jobs_are_known_to_all_or_to_none(self) -> None:
        daemon = self.world.daemon
        jobs, ledger = daemon._engine.jobs, daemon._controller.ledger
        assert set(ledger._present) == {job.name for job in jobs.values() if job.arrived}
        assert set(daemon._registration.joined) == set(ledger._present)
        assert all(caller.job is None or caller.job in jobs.values() for caller in self.open)
        for job in jobs.values():
            over_ns = self.world.clock.now_ns() - self.ended.get(job.caller, self.world.clock.now_ns())
            assert over_ns < 10**9, f"{job.name} has no connection"
        assert len({job.slot for job in jobs.values()}) == len(jobs)

    def teardown(self) -> None:
        world = self.world
        for caller in list(self.open):
            self.end(caller)
        world.clock.pass_seconds(2.0)
        assert not world.daemon._engine.jobs  # though their processes live
        for member in world.members.values():
            member.leave()
        world.members.clear()
        world.clock.pass_seconds(2.0)
        world.daemon.heard(ScriptedCaller(), say.SetBudget(100 * MIB))
        daemon = world.daemon
        assert not daemon._engine.jobs
        assert not daemon._controller.ledger._accounts
        assert not daemon._registration._too_large
        assert not world.board.snapshot().slots
        honest: Member = world.join("honest", TRACES["small"])
        assert honest.wait_permit(0, 0.0)
        world.close()
        shutil.rmtree(self.folder)


AnyMessages.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_no_sequence_of_messages_leaves_a_ghost = AnyMessages.TestCase
