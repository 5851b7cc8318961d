"""The CUDA device's memory, through torch's unmodified CUDA build on the hollow device."""

from __future__ import annotations

from typing import Any

import pytest

from hollow.board import Board as Device
from hollow.board import Tally
from hollow.sharing.running import Hollow, facts_of, kill, next_facts

MIB = 1 << 20
PAGE_CALLS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemImportFromShareableHandle")
MOVING_CALLS = ("cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaHostAlloc", *PAGE_CALLS)


@pytest.fixture
def hollow(tmp_path: Any) -> Hollow:
    return Hollow(tmp_path)


def test_statistics_are_those_of_torchs_own_allocator(hollow: Hollow) -> None:
    ours, torchs = hollow.run("memory_figures"), hollow.run("memory_figures", SHARED="0")
    assert ours == torchs


def test_programs_request_the_same_of_both_allocators_whatever_they_use_of_cuda(hollow: Hollow) -> None:
    ours, torchs = hollow.run("features"), hollow.run("features", SHARED="0")
    assert ours == torchs
    assert ours["streams_and_events"][0]
    assert ours["device_memory"][0]
    assert ours["pinned_loader"][0] == 4096 * 4095 // 2


def test_an_allocation_beyond_the_budget_names_job_need_held_and_budget_and_the_program_goes_on(hollow: Hollow) -> None:
    facts = hollow.run("out_of_memory")
    said = facts["said"]
    assert said.startswith("CUDA out of memory. Tried to allocate 1024 MiB. neaptide: job greedy, budget 256 MiB: ")
    assert "a block of 1024.0 MiB needs 1024.0 MiB more" in said
    assert "this process holds" in said
    assert facts["observed"] == facts["ooms"] == 1
    assert facts["goes_on"] == MIB


def test_torch_is_told_of_all_memory_as_by_its_own_allocator(hollow: Hollow) -> None:
    facts = hollow.run("memory_face")
    assert facts["snapshot"]
    assert facts["reserved"]
    assert facts["history"] == ["alloc", "free_requested", "free_completed"]
    assert "CUDA IPC" in facts["ipc"]
    assert facts["pool reuses"]
    assert facts["pool keeps"]
    assert facts["pool returns"] > 0
    assert facts["fraction"]
    assert facts["fraction leaves the context out"] == 40 * MIB
    assert facts["fraction is told"] == pytest.approx(0.04)
    assert facts["recorded"]
    assert facts["empty"] == 0


def test_an_eviction_makes_one_copy_for_each_run_of_memory_and_waits_once(hollow: Hollow) -> None:
    process = hollow.start("moves")
    next_facts(process)
    device = Device(hollow.folder / "device")

    def move() -> tuple[dict[str, int], dict[str, Any]]:
        before = device.calls()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        facts = next_facts(process)
        return {name: tally.calls - before.get(name, Tally()).calls for name, tally in device.calls().items()}, facts

    try:
        move()
        calls, facts = move()
    finally:
        kill(process)
        device.close()
    assert facts["moved"] == 60 * MIB
    # Neither the second eviction nor the second restore makes, maps or unmaps a page.
    assert {name: calls[name] for name in MOVING_CALLS} == {
        "cudaMemcpyAsync": 2,
        "cudaStreamSynchronize": 2,  # for a copy
        "cudaDeviceSynchronize": 1,  # before anything is moved
        "cudaHostAlloc": 1,
        **dict.fromkeys(PAGE_CALLS, 0),
    }


def test_memory_survives_evictions_bit_by_bit_at_its_addresses(hollow: Hollow) -> None:
    facts = hollow.run("evictions", TURNS="100")
    assert facts["wrong"] == 0
    assert facts["same"]
    assert facts["moved"] > 100 * 10 * MIB
    assert facts["beside"] > 0


def test_while_an_op_waits_for_memory_all_that_was_launched_before_counts_as_done(hollow: Hollow) -> None:
    sizes = {"BUDGET_MIB": "512", "TIDE_MIB": "300"}
    hollow.make_board(512 * MIB)
    holder = hollow.start("holder", **sizes)
    next_facts(holder)
    waiter = hollow.start("waits", **sizes)
    try:
        next_facts(waiter)
        hollow.wait_until_a_process_waits_and_has_nothing_on_the_device()
    finally:
        kill(holder)
    assert facts_of(waiter) == {"ended": True}
