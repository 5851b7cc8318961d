"""The CUDA device as commands and the daemon see it, on GPUs that are described here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from neaptide.devices import Board, find_kind
from neaptide.devices.board.port import Port
from neaptide.devices.cuda import nvml

GIB, MIB = 1 << 30, 1 << 20
KIND = find_kind("cuda")


def gpu(total_bytes: int, free_bytes: int | None = None, index: int = 0) -> nvml.Gpu:
    return nvml.Gpu(f"GPU {index}", f"GPU-{index}", 1 << 63 | index << 8, total_bytes, free_bytes or total_bytes)


@pytest.mark.parametrize(("gib", "mib"), [(2, 2), (16, 2), (24, 4), (40, 8), (80, 16), (141, 32), (288, 32)])
def test_a_gpu_with_more_memory_has_larger_chunks(monkeypatch: pytest.MonkeyPatch, gib: int, mib: int) -> None:
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [gpu(gib * GIB)])
    assert KIND.chunk_bytes() == mib * MIB


def test_the_default_budget_is_what_is_free_without_a_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [gpu(16 * GIB, 10 * GIB), gpu(2 * GIB)])
    assert KIND.default_budget_bytes() == 10 * GIB - 512 * MIB
    assert KIND.default_budget_bytes(1) == 2 * GIB - 128 * MIB


def test_a_gpu_that_is_not_there_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [gpu(GIB)])
    with pytest.raises(ValueError, match="there is no GPU 1: CUDA_VISIBLE_DEVICES and the driver leave 1"):
        KIND.chunk_bytes(1)


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("-1,0", []),
        ("2,0", [2, 0]),
        ("1,-1,0", [1]),
        ("0,7,1", [0]),
        ("0,1,0", []),  # CUDA sees none either when one is named twice
        (" 1 , 2", [1, 2]),
        ("1gpu,+2", [1, 2]),
        ("none", []),
        ("GPU-b1", [1]),
        ("GPU-b", []),  # of two
        ("GPU-b2,0,GPU-b1", [2, 0, 1]),
        ("0,MIG-a", [0]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(
    monkeypatch: pytest.MonkeyPatch, named: str | None, left: list[int]
) -> None:
    uuids = ("GPU-a0", "GPU-b1", "GPU-b2")
    gpus = [replace(gpu(GIB, index=index), uuid=uuid) for index, uuid in enumerate(uuids)]
    monkeypatch.setattr(nvml, "all_gpus", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert [gpus.index(each) for each in nvml.visible_gpus()] == left


def test_a_part_of_a_gpu_is_refused_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "all_gpus", lambda: [gpu(GIB)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f")
    with pytest.raises(nvml.NvmlError, match="only whole GPUs can be shared; name one by its number or by its UUID"):
        nvml.visible_gpus()


def test_processes_outside_the_board_are_taken_off_what_its_jobs_can_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = gpu(2 * GIB)
    monkeypatch.setattr(nvml, "all_gpus", lambda: [there])
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [there])
    board = KIND.create_board(tmp_path / "board", GIB, KIND.board_settings_type())
    others = [nvml.GpuProcess(2**22 + 1, 300 * MIB)]
    monkeypatch.setattr(nvml, "processes", lambda _: others)
    assert KIND.most_bytes(board) == 2 * GIB - 128 * MIB - 300 * MIB
    port = Port(board, "job")
    assert port.allocate(MIB) is not None
    assert KIND.most_bytes(board) is None  # the job is not among NVML's processes, so its numbers mean nothing here
    others.append(nvml.GpuProcess(os.getpid(), 500 * MIB))
    assert KIND.most_bytes(board) == 2 * GIB - 128 * MIB - 300 * MIB
    port.leave()
    board.close()


def test_a_job_sees_the_gpu_of_its_board_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpus = [gpu(2 * GIB, index=index) for index in range(3)]
    monkeypatch.setattr(nvml, "all_gpus", lambda: gpus)
    monkeypatch.setattr(nvml, "visible_gpus", lambda: gpus[::-1])
    monkeypatch.setenv("NEAPTIDE_DEVICE", "cuda:0")
    board = KIND.create_board(tmp_path / "board", GIB, KIND.board_settings_type())
    assert (board.chunk_bytes, board.region_setting()) == (2 * MIB, gpus[2].bus_id)
    environment = KIND.environment(KIND.settings_type(wait="2s"), tmp_path / "board")
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-2"
    assert environment["NEAPTIDE_CUDA_BOARD"] == str(tmp_path / "board")
    assert float(environment["NEAPTIDE_CUDA_WAIT"]) == 2
    board.close()
    assert Board.open(tmp_path / "board").chunk_bytes == 2 * MIB
