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
    assert facts["allowance"] == (64 + 32) * MIB  # the context, and half as much for libraries
    assert (facts["taken"], facts["back"]) == (100 * MIB, 0)
    assert facts["used"] >= 64 * MIB


@pytest.mark.parametrize(
    ("case", "said", "devices"),
    [
        ("uses_cuda_first", "the program uses CUDA already; call neaptide.attach before its first use of CUDA", 1),
        ("forks_after_use", "Cannot re-initialize CUDA in forked subprocess", 1),
        ("uses_two_gpus", "4 and 12 MiB, only the first is shared", 2),
        ("frees_from_another_gpu", "the GPU is idle", 2),
        ("has_a_pool_for_each_thread", "0 blocks of another's pool, 8 of 8 MiB", 1),
        ("brings_an_allocator", "neaptide: the program's own allocator cannot be used while the GPU is shared", 1),
        ("has_a_kernel_that_fails", "CUDA error: an illegal memory access was encountered", 1),
    ],
)
def test_a_hostile_program_gets_a_clear_answer(hollow: Hollow, case: str, said: str, devices: int) -> None:
    assert said in hollow.run("hostile", CASE=case, HOLLOW_DEVICES=str(devices))["said"]


@pytest.mark.parametrize(("visible", "device"), [("1,0", 1), ("GPU-686f6c6c-6f77-2d67-7075-2d3030303031", 1), ("0", 0)])
def test_a_job_shares_the_first_gpu_that_cuda_visible_devices_names(hollow: Hollow, visible: str, device: int) -> None:
    facts = hollow.run("hostile", CASE="takes_memory", HOLLOW_DEVICES="2", CUDA_VISIBLE_DEVICES=visible)
    assert facts["said"] == "32 MiB, 32 of them shared"
    assert [hollow.device_peak_bytes(each) > 0 for each in range(2)] == [each == device for each in range(2)]


def test_without_a_visible_gpu_one_line_says_so(hollow: Hollow) -> None:
    said = hollow.run("hostile", CASE="takes_memory", CUDA_VISIBLE_DEVICES="")["said"]
    assert said == "there is no GPU 0: CUDA_VISIBLE_DEVICES and the driver leave 0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:32"),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
        ("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.8,roundup_power2_divisions:4"),
    ],
)
def test_settings_of_torchs_allocator_have_no_effect_and_a_line_says_so(hollow: Hollow, name: str, value: str) -> None:
    program = hollow.start("hostile", CASE="takes_memory", **{name: value})
    out, err = program.communicate()
    assert "32 MiB, 32 of them shared" in out
    assert [line for line in err.splitlines() if name in line] == [
        f"neaptide: {name} has no effect on the shared GPU: neaptide places its memory"
    ]


def test_a_program_that_hides_the_shared_gpu_from_itself_is_told_so(hollow: Hollow) -> None:
    said = hollow.run("hostile", CASE="hides_the_gpu", HOLLOW_DEVICES="2")["said"]
    assert "this process does not see the GPU that is shared" in said
    assert "CUDA_VISIBLE_DEVICES must leave it" in said


def test_what_a_program_takes_from_cuda_itself_is_kept_from_others(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    taker = hollow.start("takes_outside", MIB="300")
    assert next_facts(taker)["outside"] == (64 + 300 + 32) * MIB
    waiting = hollow.start("tide", TURNS="1", BUDGET_MIB="512", TIDE_MIB="150")
    hollow.wait_until_a_process_waits()
    assert taker.communicate(input="")[0] == ""
    assert facts_of(waiting)["wrong"] == 0
    assert hollow.device_peak_bytes() <= 512 * MIB
