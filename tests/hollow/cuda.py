"""CUDA's calls by ctypes, for processes on the hollow device: a failure raises `CudaError` with the call's name."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_float, c_int, c_size_t, c_uint, c_uint64, c_ushort, c_void_p
from typing import Any

from hollow.place import LIBRARY

MiB = 1 << 20
GiB = 1 << 30
NON_BLOCKING = 1  # flag of a stream
NO_TIMING = 2  # flag of an event
READ_WRITE = 3
FILE_DESCRIPTOR = 1  # handle type
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)

_library = ctypes.CDLL(str(LIBRARY))


class CudaError(Exception):
    """A call that did not succeed."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} gave {code}")
        self.name, self.code = name, code


def code_of(name: str, *arguments: Any) -> int:
    return int(getattr(_library, name)(*arguments))


def call(name: str, *arguments: Any) -> None:
    code = code_of(name, *arguments)
    if code:
        raise CudaError(name, code)


def pointer(address: int | None) -> c_void_p:
    return c_void_p(address)


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class _AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location", _Location),
        ("security", c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_char * 4),
    ]


class _AccessDescription(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", c_int)]


def malloc(count: int) -> int:
    out = c_void_p()
    call("cudaMalloc", byref(out), c_size_t(count))
    return out.value or 0


def free(address: int) -> None:
    call("cudaFree", pointer(address))


def pinned(count: int) -> int:
    out = c_void_p()
    call("cudaHostAlloc", byref(out), c_size_t(count), c_uint(0))
    return out.value or 0


def memory_info() -> tuple[int, int]:
    unused, total = c_size_t(), c_size_t()
    call("cudaMemGetInfo", byref(unused), byref(total))
    return unused.value, total.value


def copy(to: int, source: int, count: int, stream: int = 0) -> None:
    call("cudaMemcpyAsync", pointer(to), pointer(source), c_size_t(count), c_int(4), pointer(stream))


def write(to: int, data: bytes) -> None:
    call("cudaMemcpy", pointer(to), data, c_size_t(len(data)), c_int(4))


def read(source: int, count: int) -> bytes:
    out = ctypes.create_string_buffer(count)
    call("cudaMemcpy", out, pointer(source), c_size_t(count), c_int(4))
    return out.raw


def memset(to: int, value: int, count: int, stream: int = 0) -> None:
    call("cudaMemsetAsync", pointer(to), c_int(value), c_size_t(count), pointer(stream))


# --- virtual memory management


def reserve(count: int) -> int:
    out = c_uint64()
    call("cuMemAddressReserve", byref(out), c_size_t(count), c_size_t(0), c_uint64(0), c_uint64(0))
    return out.value


def create(count: int, *, exportable: bool = True, device: int = 0) -> int:
    wanted = _AllocationProperties(1, FILE_DESCRIPTOR if exportable else 0, _Location(1, device))
    out = c_uint64()
    call("cuMemCreate", byref(out), c_size_t(count), byref(wanted), c_uint64(0))
    return out.value


def release(handle: int) -> None:
    call("cuMemRelease", c_uint64(handle))


def map_memory(address: int, count: int, handle: int) -> None:
    call("cuMemMap", c_uint64(address), c_size_t(count), c_size_t(0), c_uint64(handle), c_uint64(0))


def set_access(address: int, count: int, flags: int = READ_WRITE) -> None:
    wanted = _AccessDescription(_Location(1, 0), flags)
    call("cuMemSetAccess", c_uint64(address), c_size_t(count), byref(wanted), c_size_t(1))


def unmap(address: int, count: int) -> None:
    call("cuMemUnmap", c_uint64(address), c_size_t(count))


def export(handle: int) -> int:
    out = c_int()
    call("cuMemExportToShareableHandle", byref(out), c_uint64(handle), c_int(FILE_DESCRIPTOR), c_uint64(0))
    return out.value


def import_file(descriptor: int) -> int:
    out = c_uint64()
    call("cuMemImportFromShareableHandle", byref(out), c_void_p(descriptor), c_int(FILE_DESCRIPTOR))
    return out.value


def mapped(handle: int, count: int) -> int:
    """An address with the handle's memory behind it."""
    address = reserve(count)
    map_memory(address, count, handle)
    set_access(address, count)
    return address


# --- streams, events, kernels


def stream(flags: int = NON_BLOCKING) -> int:
    out = c_void_p()
    call("cudaStreamCreateWithFlags", byref(out), c_uint(flags))
    return out.value or 0


def event(flags: int = 0) -> int:
    out = c_void_p()
    call("cudaEventCreateWithFlags", byref(out), c_uint(flags))
    return out.value or 0


def record(marker: int, on: int = 0) -> None:
    call("cudaEventRecord", pointer(marker), pointer(on))


def wait(on: int, marker: int) -> None:
    call("cudaStreamWaitEvent", pointer(on), pointer(marker), c_uint(0))


def is_done(marker: int) -> bool:
    code = code_of("cudaEventQuery", pointer(marker))
    if code not in (0, 600):
        raise CudaError("cudaEventQuery", code)
    return code == 0


def is_idle(on: int) -> bool:
    return code_of("cudaStreamQuery", pointer(on)) == 0


def finish(on: int = 0) -> None:
    call("cudaStreamSynchronize", pointer(on))


def milliseconds(start: int, end: int) -> float:
    out = c_float()
    call("cudaEventElapsedTime", byref(out), pointer(start), pointer(end))
    return out.value


_module = c_void_p()
_kernel = c_void_p()


def launch(on: int = 0) -> None:
    """A kernel that does nothing but take time."""
    if not _kernel:
        call("cudaFree", None)
        call("cuModuleLoadData", byref(_module), b"")
        call("cuModuleGetFunction", byref(_kernel), _module, b"nothing")
    call("cuLaunchKernel", _kernel, *[c_uint(1)] * 6, c_uint(0), pointer(on), None, None)


def write_value(on: int, address: int, value: int) -> None:
    call("cuStreamWriteValue32_v2", pointer(on), c_uint64(address), c_uint(value), c_uint(0))


def wait_value(on: int, address: int, value: int) -> None:
    call("cuStreamWaitValue32_v2", pointer(on), c_uint64(address), c_uint(value), c_uint(0))


def word(address: int) -> Any:
    """A 32-bit word of pinned memory."""
    return ctypes.cast(address, POINTER(c_uint)).contents
