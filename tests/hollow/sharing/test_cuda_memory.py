"""The CUDA device's memory, through torch's unmodified CUDA build on the hollow device."""

from __future__ import annotations

from typing import Any

import pytest

from hollow.sharing.running import Hollow

MIB = 1 << 20


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
    assert facts["recorded"]
    assert facts["empty"] == 0


def test_memory_survives_evictions_bit_by_bit_at_its_addresses(hollow: Hollow) -> None:
    facts = hollow.run("evictions", TURNS="100")
    assert facts["wrong"] == 0
    assert facts["same"]
    assert facts["moved"] > 100 * 10 * MIB
    assert facts["beside"] > 0
