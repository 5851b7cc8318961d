"""What `neaptide verify` finds out, on the software GPU: a small part of each thing that it runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from neaptide.verification import judging
from neaptide.verification.facts import Load
from neaptide.verification.groups import Group, Groups
from neaptide.verification.moves import move
from neaptide.verification.refusals import JOB, ask_for_too_much
from neaptide.verification.report import Verdict

MIB = 1 << 20
LOAD = Load("vae", "tiny", 8)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: it holds sockets."""
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        yield Path(name)


def test_a_job_has_the_same_numbers_and_data_without_neaptide_and_under_the_daemon(folder: Path) -> None:
    groups = Groups(folder, seconds=0.2, bytes_at_rest=None)
    alone, managed = groups.run(Group("alone", (LOAD,))), groups.run(Group("managed", (LOAD,), "neaptide", 64 * MIB))
    assert alone.ended_well
    assert managed.ended_well
    line = judging.judge_numbers(groups.runs, None)
    assert (line.verdict, line.figures["trainings"]) == (Verdict.OK, 2)
    assert judging.judge_leases(groups.runs).verdict is Verdict.OK
    assert managed.needs_bytes[0] > managed.persistent_bytes[0] > 0
    assert managed.trainings[0].wrong_blocks == alone.trainings[0].wrong_blocks == 0


def test_a_job_that_cannot_run_is_a_failure_that_says_why(folder: Path) -> None:
    groups = Groups(folder, seconds=0.2, bytes_at_rest=None)
    run = groups.run(Group("alone", (Load("no-such-network", "tiny", 8),)))
    assert not run.ended_well
    line = judging.judge_ends(groups.runs)
    assert line.verdict is Verdict.FAILED
    assert "no-such-network" in line.text


def test_a_process_keeps_its_bytes_through_evictions(folder: Path) -> None:
    moves = move(folder, 8 * MIB, turns=2, bytes_at_rest=None)
    assert (moves.problem, moves.turns, moves.wrong_blocks) == ("", 2, 0)
    assert moves.moved_bytes >= 8 * MIB


def test_an_allocation_beyond_the_budget_names_job_need_held_bytes_and_budget(folder: Path) -> None:
    line = judging.judge_refusal(ask_for_too_much(folder, None), JOB)
    assert line.verdict is Verdict.OK, line.text
