"""What the status says of a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from builders import Op, Tensor, make_trace
from neaptide.cli.commands.status import line_of
from neaptide.core.control.job import DisplayState
from neaptide.core.traces.framework import with_framework
from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Kind
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.status import StatusBuilder, status_of
from neaptide.live.protocol.messages import Hello, JobStatus, NotShared

SECOND = 1_000_000_000
UNSEEN: Any = SimpleNamespace(done=0, held_bytes=0, over_bytes=0, wanted_bytes=0)
NO_ACCOUNTS: Any = SimpleNamespace(knows=lambda _: False)
NOBODY: Any = None


def status(*ends_seconds: float, now_seconds: float) -> JobStatus:
    """The status of a job whose iterations ended at these times."""
    job = AttachedJob("a", Hello(pid=1, slot=0, job="a"), 0, NOBODY)
    job.ends_ns.extend(round(each * SECOND) for each in ends_seconds)
    return status_of(job, NO_ACCOUNTS, UNSEEN, round(now_seconds * SECOND))


@pytest.mark.parametrize(
    ("ends_seconds", "now_seconds", "rate"),
    [
        ((), 9, 0.0),
        ((1,), 9, 0.0),
        ((1, 1.5), 1.6, 2.0),
        ((1, 1.5, 2), 2.1, 2.0),
        ((1, 2), 4, 1.0),  # the third is not late yet
        ((1, 2), 5, 0.25),  # it is: one iteration in the four seconds since the first has ended
    ],
)
def test_the_rate_is_that_of_the_last_iterations_and_falls_while_the_next_is_late(
    ends_seconds: tuple[float, ...], now_seconds: float, rate: float
) -> None:
    assert status(*ends_seconds, now_seconds=now_seconds).iterations_per_second == pytest.approx(rate)


def test_the_status_tells_memory_of_the_model_of_the_framework_and_of_iterations_apart() -> None:
    job = AttachedJob("a", Hello(pid=1, slot=0, job="a"), 0, NOBODY)
    before = status_of(job, NO_ACCOUNTS, UNSEEN, 0)
    assert "framework" not in line_of(before)
    weight = Tensor(bytes=100 << 20, born=-1, died=1, kind=Kind.PARAMETER)
    trace = with_framework(make_trace([Op()], [weight, Tensor(bytes=30 << 20, born=0, died=0)]), 64 << 20)
    # Of each chunk that the job leases, 2 MiB are in no tensor.
    job.profile = Profile.of(trace, Leases.of(trace, LeaseOverhead(2 << 20, 2 << 20, 2 << 20)))
    seen = status_of(job, NO_ACCOUNTS, UNSEEN, 0)
    assert "(model 100 MiB, framework 66.0 MiB, ephemeral 30.0 MiB)" in line_of(seen)
    assert "over the link" not in line_of(seen)


def test_the_status_tells_what_a_job_has_over_the_link() -> None:
    job = AttachedJob("a", Hello(pid=1, slot=0, job="a"), 0, NOBODY)
    seen: Any = SimpleNamespace(done=0, held_bytes=10 << 20, over_bytes=30 << 20, wanted_bytes=0)
    said = line_of(status_of(job, NO_ACCOUNTS, seen, 0))
    assert "holds 10.0 MiB, 30.0 MiB more over the link" in said


@pytest.mark.parametrize(
    ("now_seconds", "state"),
    [(19, DisplayState.MEASURING), (20, DisplayState.UNMEASURED), (99, DisplayState.UNMEASURED)],
)
def test_a_job_that_shows_no_iterations_for_twenty_seconds_is_not_being_measured(
    now_seconds: float, state: DisplayState
) -> None:
    assert status(now_seconds=now_seconds).state is state


def test_of_a_process_that_is_not_shared_only_its_name_and_the_reason_are_known() -> None:
    board: Any = SimpleNamespace(
        path="board",
        reap=lambda: None,
        snapshot=lambda: SimpleNamespace(used_bytes=0, high_water_bytes=0),
        region_setting=lambda: 2,
    )
    engine: Any = SimpleNamespace(now_ns=0, jobs={})
    builder = StatusBuilder(board, engine, NO_ACCOUNTS)
    builder.note_not_shared("line", NotShared(7, "a", "torch works on the CPU"))
    (shown,) = builder.status("zico", 5, "").jobs
    said = msgspec.structs.asdict(shown)
    known = {name: said.pop(name) for name in ("name", "pid", "state", "reason", "kind")}
    assert known | {"kind": None} == {
        "name": "a",
        "pid": 7,
        "state": DisplayState.NOT_SHARED,
        "reason": "torch works on the CPU",
        "kind": None,
    }
    assert not any(said.values())
    builder.forget("line")
    assert builder.status("zico", 5, "").jobs == ()
