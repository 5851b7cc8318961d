"""Processes that share the hollow device: its own count of bytes never exceeds the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from hollow.sharing.running import Hollow, facts_of, kill, next_facts

MIB = 1 << 20


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path)


def test_two_processes_take_turns_with_memory_and_the_device_never_holds_more_than_the_budget(hollow: Hollow) -> None:
    sizes = {"BUDGET_MIB": "512", "TIDE_MIB": "200", "TURNS": "40"}
    hollow.make_board(512 * MIB)
    jobs = [hollow.start("tide", **sizes) for _ in range(2)]
    assert [facts_of(job)["wrong"] for job in jobs] == [0, 0]
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_a_killed_process_gives_its_memory_back_when_the_driver_has_taken_it_away(hollow: Hollow) -> None:
    sizes = {"BUDGET_MIB": "512", "TIDE_MIB": "300", "HOLLOW_TEARDOWN_MS": "700"}
    hollow.make_board(512 * MIB)
    for _ in range(3):
        holder = hollow.start("holder", **sizes)
        assert next_facts(holder)["holds"] == 300 * MIB
        kill(holder)
        assert hollow.run("tide", TURNS="1", **sizes)["wrong"] == 0
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_a_process_waits_until_another_has_ended(hollow: Hollow) -> None:
    sizes = {"BUDGET_MIB": "512", "TIDE_MIB": "300"}
    hollow.make_board(512 * MIB)
    holder = hollow.start("holder", **sizes)
    next_facts(holder)
    waiting = hollow.start("tide", TURNS="1", **sizes)
    hollow.wait_until_a_process_waits()
    assert holder.communicate(input="")[0] == ""
    assert facts_of(waiting)["wrong"] == 0
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_memory_that_torch_does_not_know_of_is_leased_too(hollow: Hollow) -> None:
    facts = hollow.run("outside")
    assert facts["context"] == 64 * MIB
    assert (facts["taken"], facts["back"]) == (100 * MIB, 0)
    assert facts["used"] >= 64 * MIB


@pytest.mark.parametrize(
    ("case", "said", "devices"),
    [
        ("uses_cuda_first", "the program uses CUDA already; call neaptide.attach before its first use of CUDA", 1),
        ("forks_after_use", "Cannot re-initialize CUDA in forked subprocess", 1),
        ("uses_two_gpus", "4 and 12 MiB, only the first is shared", 2),
    ],
)
def test_a_hostile_program_gets_a_clear_answer(hollow: Hollow, case: str, said: str, devices: int) -> None:
    assert said in hollow.run("hostile", CASE=case, HOLLOW_DEVICES=str(devices))["said"]
