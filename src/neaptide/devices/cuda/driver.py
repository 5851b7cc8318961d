"""What CUDA's driver library says without a context on any GPU."""

from __future__ import annotations

import ctypes
from functools import cache
from uuid import UUID

_MAPS_PAGES = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
_PINNED, _FILE_DESCRIPTOR, _ON_DEVICE = 1, 1, 1  # of CUmemAllocationProp
_SUCCESS = 0


class _AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


@cache
def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == _SUCCESS else None


def cuda_version() -> tuple[int, int] | None:
    """The newest CUDA that the driver supports; None without a driver."""
    library, version = _load(), ctypes.c_int()
    if library is None or library.cuDriverGetVersion(ctypes.byref(version)) != _SUCCESS:
        return None
    return version.value // 1000, version.value % 1000 // 10


def device_of(uuid: str) -> int | None:
    """The GPU with this UUID as the driver numbers it in this process; None when it is not visible."""
    library, count = _load(), ctypes.c_int()
    if library is None or library.cuDeviceGetCount(ctypes.byref(count)) != _SUCCESS:
        return None
    ask_uuid = getattr(library, "cuDeviceGetUuid_v2", None) or library.cuDeviceGetUuid  # older drivers have one of them
    wanted = UUID(uuid.removeprefix("GPU-")).bytes
    for index in range(count.value):
        device, found = ctypes.c_int(), ctypes.create_string_buffer(16)
        if library.cuDeviceGet(ctypes.byref(device), index) != _SUCCESS:
            continue
        if ask_uuid(found, device) == _SUCCESS and found.raw == wanted:
            return device.value
    return None


def maps_pages(uuid: str) -> bool:
    """Whether pages of the GPU with this UUID can be mapped one by one."""
    library, device, value = _load(), device_of(uuid), ctypes.c_int()
    if library is None or device is None:
        return False
    return library.cuDeviceGetAttribute(ctypes.byref(value), _MAPS_PAGES, device) == _SUCCESS and value.value == 1


class PageMaker:
    """Makes pages of one GPU that other processes can map. It needs no context on the GPU."""

    def __init__(self, device: int, page_bytes: int) -> None:
        library = _load()
        assert library is not None
        self._library, self._page_bytes = library, page_bytes
        self._wanted = _AllocationProperties(
            type=_PINNED, handle_types=_FILE_DESCRIPTOR, location_type=_ON_DEVICE, location=device
        )

    def make(self) -> int | None:
        """The handle of a new page; None when the device has no memory for it."""
        handle = ctypes.c_uint64()
        bytes_, flags = ctypes.c_size_t(self._page_bytes), ctypes.c_uint64(0)
        made = self._library.cuMemCreate(ctypes.byref(handle), bytes_, ctypes.byref(self._wanted), flags)
        return handle.value if made == _SUCCESS else None

    def export(self, handle: int) -> int | None:
        """A new file descriptor of the page, which the caller closes."""
        out, kind = ctypes.c_int(), ctypes.c_int(_FILE_DESCRIPTOR)
        arguments = (ctypes.byref(out), ctypes.c_uint64(handle), kind, ctypes.c_uint64(0))
        return out.value if self._library.cuMemExportToShareableHandle(*arguments) == _SUCCESS else None

    def release(self, handle: int) -> None:
        """Let go of the page; it is gone when no other process has it."""
        self._library.cuMemRelease(ctypes.c_uint64(handle))
