"""The verdicts of `neaptide verify`, from runs that are described here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.live.runs.supervisor import JobResult
from neaptide.verification import judging
from neaptide.verification.facts import Load, Refusal, Training
from neaptide.verification.groups import Group, GroupRun
from neaptide.verification.moves import Moves
from neaptide.verification.report import Line, Report, Verdict
from neaptide.verification.sizes import binding_budget

MIB, MS = 1 << 20, 1_000_000
ONE, TWO = Load("resnet50", "tiny", 16), Load("gpt2", "tiny", 16)
MOVES = Moves(3, 64 * MIB, 0, 8e9, 8e9, 10e9, 10e9)
SAID = "out of memory. neaptide: job greedy, budget 64 MiB: needs 128 MiB more, this process holds 2 MiB"


def training(digest: str = "a", *, computes: bool = True, wrong: int = 0, at_ms: tuple[int, ...] = ()) -> Training:
    """Iterations of 10 ms that begin at these times."""
    return Training(digest, computes, wrong, tuple(at * MS for at in at_ms), tuple((at + 10) * MS for at in at_ms))


def run(*trainings: Training, policy: str | None = None, rates: tuple[float, ...] = (), leased: int = 60) -> GroupRun:
    loads = (ONE, TWO)[: len(trainings)]
    group = Group("a run", loads, policy, 64 * MIB if policy else None)
    results = tuple(JobResult(f"job{index}", 0, 1.0, "") for index in range(len(loads)))
    return GroupRun(group, results, trainings=trainings, rates=rates, leased_bytes=leased * MIB)


def test_numbers_that_are_the_same_everywhere_are_ok() -> None:
    runs = [run(training("a")), run(training("a"), training("b"), policy="neaptide")]
    assert judging.judge_numbers(runs, None).verdict is Verdict.OK


def test_a_job_that_computes_other_numbers_when_shared_is_named() -> None:
    runs = [run(training("a")), run(training("c"), training("b"), policy="neaptide")]
    line = judging.judge_numbers(runs, again=run(training("a")))
    assert line.verdict is Verdict.FAILED
    assert "resnet50 tiny, batch 16" in line.text


def test_a_job_that_differs_alone_too_says_nothing_about_sharing() -> None:
    runs = [run(training("a")), run(training("c"), training("b"), policy="neaptide")]
    assert judging.judge_numbers(runs, again=run(training("d"))).verdict is Verdict.UNKNOWN


def test_numbers_of_a_device_that_computes_nothing_are_not_judged() -> None:
    runs = [run(training("a", computes=False)), run(training("b", computes=False), policy="neaptide")]
    line = judging.judge_numbers(runs, None)
    assert (line.verdict, "compute nothing" in line.text) == (Verdict.UNKNOWN, True)


def test_one_wrong_block_is_a_failure() -> None:
    good = run(training())
    assert judging.judge_data([good], MOVES).verdict is Verdict.OK
    assert judging.judge_data([good, run(training(wrong=1))], MOVES).verdict is Verdict.FAILED
    assert judging.judge_data([good], replace(MOVES, wrong_blocks=1)).verdict is Verdict.FAILED


def test_a_lease_beyond_the_budget_is_a_failure() -> None:
    assert judging.judge_leases([run(training(), policy="neaptide", leased=64)]).verdict is Verdict.OK
    assert judging.judge_leases([run(training(), policy="neaptide", leased=65)]).verdict is Verdict.FAILED


def test_the_devices_own_count_is_judged_where_there_is_one() -> None:
    limited = run(training(), policy="neaptide")
    assert judging.judge_device_count([limited]).verdict is Verdict.UNKNOWN
    assert judging.judge_device_count([replace(limited, counted_bytes=64 * MIB, looks=9)]).verdict is Verdict.OK
    over = replace(limited, counted_bytes=64 * MIB + 1, looks=9)
    assert judging.judge_device_count([over]).verdict is Verdict.FAILED


def test_what_a_job_without_a_limit_uses_is_not_held_against_a_budget() -> None:
    free = replace(run(training()), counted_bytes=1 << 40, looks=9)
    assert judging.judge_device_count([free]).verdict is Verdict.UNKNOWN


def test_a_job_that_was_killed_or_did_not_get_on_is_a_failure() -> None:
    assert judging.judge_ends([run(training())]).verdict is Verdict.OK
    killed = replace(run(training()), results=(JobResult("job0", -9, 1.0, ""),))
    assert "job0 ended with SIGKILL" in judging.judge_ends([killed]).text
    stuck = replace(run(training()), problem="the jobs did not begin within 180 s")
    assert judging.judge_ends([run(training()), stuck]).verdict is Verdict.FAILED


@pytest.mark.parametrize(("under", "verdict"), [(10.0, Verdict.OK), (9.2, Verdict.OK), (9.0, Verdict.FAILED)])
def test_overhead_is_the_ratio_of_rates(under: float, verdict: Verdict) -> None:
    line = judging.judge_overhead([run(training(), rates=(10.0,))], [run(training(), rates=(under,))])
    assert line.verdict is verdict
    assert line.figures["times"] == pytest.approx(10 / under)


def test_a_switch_is_from_one_jobs_end_to_the_others_first_launch() -> None:
    turns = run(training(at_ms=(0, 22, 44)), training(at_ms=(11, 33)))
    line = judging.judge_switch(turns)
    assert line.verdict is Verdict.OK
    assert line.figures == {"median ms": 1.0, "99th ms": 1.0, "switches": 4}
    slow = run(training(at_ms=(0, 40)), training(at_ms=(20,)))
    assert judging.judge_switch(slow).verdict is Verdict.FAILED
    assert judging.judge_switch(run(training(at_ms=(0, 10)))).verdict is Verdict.UNKNOWN


def test_sharing_is_compared_job_by_job() -> None:
    shared, turns = run(training(), training(), rates=(6.0, 30.0)), run(training(), training(), rates=(5.0, 20.0))
    line = judging.judge_against_turns(shared, turns)
    assert (line.verdict, line.figures["times"]) == (Verdict.OK, pytest.approx((1.2 + 1.5) / 2))
    assert judging.judge_against_turns(turns, shared).verdict is Verdict.FAILED
    assert judging.judge_against_turns(run(), turns).verdict is Verdict.UNKNOWN
    assert judging.judge_against_no_limit(turns, shared).verdict is Verdict.OK


def test_an_eviction_is_compared_with_a_plain_copy() -> None:
    assert judging.judge_moves(MOVES).figures["out of a plain copy"] == pytest.approx(0.8)
    assert judging.judge_moves(replace(MOVES, back_bytes_per_second=1e9)).verdict is Verdict.FAILED
    assert judging.judge_moves(replace(MOVES, problem="EVICT took longer than 60 s")).verdict is Verdict.FAILED


def test_the_error_must_name_everything_and_the_program_go_on() -> None:
    assert judging.judge_refusal(Refusal(SAID, 1, True), "greedy").verdict is Verdict.OK
    assert judging.judge_refusal(Refusal(SAID, 1, False), "greedy").verdict is Verdict.FAILED
    assert judging.judge_refusal(Refusal.none(), "greedy").verdict is Verdict.FAILED
    missing = judging.judge_refusal(Refusal(SAID.replace("budget", ""), 1, True), "greedy")
    assert "does not name budget" in missing.text


def test_a_report_fails_with_one_failed_line_and_not_with_one_that_could_not_be_judged() -> None:
    def report(*verdicts: Verdict) -> Report:
        lines = tuple(Line("a promise", verdict, "") for verdict in verdicts)
        return Report(
            neaptide="", torch="", device="", kind="", jobs=(), budget_bytes=0, quick=True, began_at="", seconds=1.0,
            lines=lines,
        )  # fmt: skip

    assert not report(Verdict.OK, Verdict.UNKNOWN).failed
    assert report(Verdict.OK, Verdict.FAILED).failed


def test_the_budget_binds_and_leaves_room_for_the_largest_iteration() -> None:
    needs, kept, chunk = [100 * MIB, 100 * MIB], [10 * MIB, 10 * MIB], 2 * MIB
    assert binding_budget(needs, kept, chunk) == 130 * MIB  # 0.65 of what they need
    assert binding_budget(needs, [60 * MIB, 60 * MIB], chunk) == 162 * MIB  # both keep 60, one iteration needs 40
