"""NVML on the hollow device: devices, bytes, and bytes by process, without a context."""

from __future__ import annotations

from hollow.board import Board
from hollow.conftest import MakeRemote

MiB = 1 << 20
CONTEXT = 16 * MiB
NVML = """
import ctypes
from hollow.place import LIBRARY
nvml = ctypes.CDLL(str(LIBRARY))
class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instances", ctypes.c_uint * 2)]
def device(index):
    handle = ctypes.c_void_p()
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    return handle
def used(index=0):
    memory = Memory()
    assert nvml.nvmlDeviceGetMemoryInfo(device(index), ctypes.byref(memory)) == 0
    return [memory.total, memory.free, memory.used]
def by_process(index=0):
    count, found = ctypes.c_uint(64), (Process * 64)()
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device(index), ctypes.byref(count), found) == 0
    return {str(entry.pid): entry.used for entry in found[:count.value]}
def count():
    out = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(out))
    return out.value
"""


def test_nvml_shows_each_processs_bytes_with_its_context(process: MakeRemote) -> None:
    first, second, watcher = process(), process(), process(NVML)
    first("malloc(100 * MiB)")
    second("create(20 * MiB)")  # charged to the process that created it
    assert watcher("by_process()") == {str(first.pid): CONTEXT + 100 * MiB, str(second.pid): 20 * MiB}
    assert watcher("used()") == [1024 * MiB, 904 * MiB - CONTEXT, 120 * MiB + CONTEXT]


def test_nvml_takes_no_context(process: MakeRemote, board: Board) -> None:
    watcher = process(NVML)
    watcher("used()")
    assert board.processes() == []


def test_nvml_forgets_a_killed_process(process: MakeRemote) -> None:
    job, watcher = process(), process(NVML)
    job("malloc(100 * MiB)")
    job.kill()
    assert watcher("by_process()") == {}


def test_nvml_sees_devices_that_are_not_visible_to_cuda(process: MakeRemote) -> None:
    job = process(HOLLOW_DEVICES="4", CUDA_VISIBLE_DEVICES="3")
    job("malloc(100 * MiB)")
    watcher = process(NVML, HOLLOW_DEVICES="4", CUDA_VISIBLE_DEVICES="")
    assert watcher("count()") == 4
    assert watcher("by_process(3)") == {str(job.pid): CONTEXT + 100 * MiB}
    assert watcher("by_process(0)") == {}


def test_a_silent_nvml_knows_processes_but_not_their_bytes(process: MakeRemote) -> None:
    job = process()
    job("malloc(100 * MiB)")
    watcher = process(NVML, HOLLOW_NVML="silent")
    assert watcher("by_process()") == {str(job.pid): 2**64 - 1}
