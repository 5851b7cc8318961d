"""An NVIDIA GPU as the command line and the daemon see it, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.control.need import Need
from neaptide.core.device import CATALOGUE
from neaptide.core.text import complain
from neaptide.core.units import format_bytes, parse_seconds
from neaptide.devices.board import Board, Region
from neaptide.devices.board.figures import LARGEST_CHUNK_BYTES, SMALL_CHUNK_BYTES
from neaptide.devices.cuda import mps, nvml
from neaptide.devices.cuda.page_table import PageTable
from neaptide.devices.interface import BoardFullError, DeviceAgent, DeviceSettings, setting

_MEMORY_WAIT_SECONDS = 10 * 365 * 86400  # no job dies for memory that others hold
_MOST_CHUNKS = 8192  # of a device; beyond, chunks are larger
_RESERVE_BYTES = 512 << 20  # of the device's memory: contexts grow before they are counted
_SPEC_OF_UNKNOWN = "A100-40GB"  # planners need figures for a GPU that the catalogue does not have
_IGNORED_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclass(frozen=True, kw_only=True)
class CudaSettings(DeviceSettings):
    """What jobs find of the GPU."""

    wait: str | float | None = setting("How long a job waits for memory before it fails. Default: as long as it takes.")

    def __post_init__(self) -> None:
        if self.wait is None:
            return
        try:
            seconds = _seconds(self.wait)
        except ValueError as error:
            raise ValueError(f"wait: {error}") from None
        if not 0 <= seconds < 2**33:
            raise ValueError(f"wait: {self.wait} is not a time; write it like 50ms or 1.5s")


@dataclass(frozen=True, kw_only=True)
class CudaBoardSettings(DeviceSettings):
    """What a new board has."""

    isolate: bool | None = setting(
        "Unmap memory that a job gives back at once, and clear memory that a job takes. Default: no."
    )
    mps: bool | None = setting("Start NVIDIA's multi-process service, so that kernels run together. Default: no.")

    def lost(self) -> list[str]:
        """MPS, where its program is not there."""
        if not self.mps or mps.find_control() is not None:
            return []
        return [f"--mps has no effect, because {mps.CONTROL} was not found: {mps.LOST}"]


class CudaKind:
    """NVIDIA GPUs, numbered as `nvidia-smi` numbers them, or as CUDA_VISIBLE_DEVICES lists them where that is set."""

    name = "cuda"
    supplies = frozenset(Need) - {Need.OVERFLOW, Need.PAGING, Need.CLASSES, Need.SHARES, Need.HOLDING}
    settings_type: type[DeviceSettings] = CudaSettings
    board_settings_type: type[DeviceSettings] = CudaBoardSettings

    def chunk_bytes(self, index: int = 0) -> int:
        """2 MiB, and more on a GPU with more than 16 GiB: every page that is mapped costs a driver call."""
        chunk_bytes, total_bytes = SMALL_CHUNK_BYTES, _gpu(index).total_bytes
        while chunk_bytes < LARGEST_CHUNK_BYTES and chunk_bytes * _MOST_CHUNKS < total_bytes:
            chunk_bytes *= 2
        return chunk_bytes

    def description(self, index: int = 0) -> str:
        """The GPU's name and memory."""
        gpu = _gpu(index)
        return f"{gpu.name}, {format_bytes(gpu.total_bytes)}"

    def default_budget_bytes(self, index: int = 0) -> int:
        """What is free on the GPU now, but for a reserve."""
        gpu, chunk_bytes = _gpu(index), self.chunk_bytes(index)
        return max(gpu.free_bytes - _reserve_bytes(gpu), 0) // chunk_bytes * chunk_bytes

    def used_bytes(self, index: int = 0) -> int | None:
        """What NVML says of the whole GPU."""
        gpu = _gpu(index)
        return gpu.total_bytes - gpu.free_bytes

    def most_bytes(self, board: Board) -> int | None:
        """The GPU's memory without the reserve and what processes that are not on the board have there."""
        try:
            gpu = next(each for each in nvml.all_gpus() if each.bus_id == board.region_setting())
            seen = {process.pid: process.used_bytes or 0 for process in nvml.processes(gpu)}
        except (nvml.NvmlError, StopIteration):  # the daemon goes on without the driver's answer
            return None
        ours = {slot.pid: slot.held_bytes for slot in board.snapshot().slots}
        if any(held_bytes and pid not in seen for pid, held_bytes in ours.items()):
            return None  # NVML counts processes by other numbers here, as in a container
        ours[PageTable(board).keeper_pid] = 0
        foreign_bytes = sum(used_bytes for pid, used_bytes in seen.items() if pid not in ours)
        left_bytes = gpu.total_bytes - _reserve_bytes(gpu) - foreign_bytes
        return max(left_bytes, 0) // board.chunk_bytes * board.chunk_bytes

    def environment(self, settings: CudaSettings, board: Path, *, best_effort: bool = True) -> dict[str, str]:
        """A job sees its GPU alone, so that it is `cuda:0` whatever the program asks for."""
        bus_id = _setting_of(board)
        wait = {} if settings.wait is None else {"NEAPTIDE_CUDA_WAIT": str(_seconds(settings.wait))}
        uuid = next((gpu.uuid for gpu in nvml.all_gpus() if gpu.bus_id == bus_id), None)
        visible = {"CUDA_VISIBLE_DEVICES": uuid} if uuid else {}
        return {"NEAPTIDE_CUDA_BOARD": str(board), **visible, **wait, **mps.environment(board, best_effort)}

    def services(self, board: Path, settings: CudaBoardSettings) -> AbstractContextManager[None]:
        """MPS, if it is wanted."""
        return mps.beside(board) if settings.mps else nullcontext()

    def create_board(self, path: Path, budget_bytes: int, settings: CudaBoardSettings) -> Board:
        """A board that knows its GPU by the PCI address."""
        from neaptide.devices import chosen_device

        index = chosen_device().index
        region = Region("cuda", _gpu(index).bus_id)
        board = Board.create(path, budget_bytes, region, chunk_bytes=self.chunk_bytes(index))
        if settings.isolate:
            PageTable(board).set_isolate()
        return board

    def prepare(self, first_use: Callable[[], None] | None = None) -> str:
        """Take the place of torch's allocator; without `first_use`, leave the GPU to torch."""
        import torch

        if first_use is None:
            return "cuda"
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise ValueError("the program uses CUDA already; call neaptide.attach before its first use of CUDA")
        from neaptide.devices.cuda import starting

        for name in _IGNORED_SETTINGS:
            if os.environ.get(name):
                complain(f"{name} has no effect on the shared GPU: neaptide places its memory")
        starting.start_by(first_use)
        return "cuda"

    def unprepare(self) -> None:
        """Nothing: the allocator stays, and a device that has not started is torch's own."""

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:  # noqa: ARG002 - a board is a device
        """Start the GPU of NEAPTIDE_CUDA_BOARD, or else of this board."""
        from neaptide.devices.cuda import starting
        from neaptide.devices.cuda.agent import CudaAgent

        path = Path(os.environ.get("NEAPTIDE_CUDA_BOARD") or board)
        wait_seconds = float(os.environ.get("NEAPTIDE_CUDA_WAIT") or _MEMORY_WAIT_SECONDS)
        try:
            starting.start(path, job, wait_seconds)
        except starting.BoardFull as error:
            raise BoardFullError(str(error)) from None
        return CudaAgent(_spec_name(_setting_of(path)))


def _seconds(wait: str | float) -> float:
    return parse_seconds(wait) if isinstance(wait, str) else float(wait)


def _gpu(index: int) -> nvml.Gpu:
    gpus = nvml.visible_gpus()
    if index >= len(gpus):
        raise ValueError(f"there is no GPU {index}: CUDA_VISIBLE_DEVICES and the driver leave {len(gpus)}")
    return gpus[index]


def _reserve_bytes(gpu: nvml.Gpu) -> int:
    return min(_RESERVE_BYTES, gpu.total_bytes // 16)


def _setting_of(board: Path) -> int:
    opened = Board.open(board)
    try:
        return opened.region_setting()
    finally:
        opened.close()


def _spec_name(bus_id: int) -> str:
    """The entry of the catalogue whose name is most alike: its model is part of the GPU's name."""
    gpu = next((each for each in nvml.all_gpus() if each.bus_id == bus_id), None)
    if gpu is None:
        return _SPEC_OF_UNKNOWN
    plain = gpu.name.replace(" ", "").upper()
    alike = [spec for spec in CATALOGUE.values() if _model(spec.name) in plain]
    return min(alike, key=lambda spec: abs(spec.memory_bytes - gpu.total_bytes)).name if alike else _SPEC_OF_UNKNOWN


def _model(spec_name: str) -> str:
    """`A100` of `A100-40GB`, `2080TI` of `RTX-2080Ti`."""
    parts = spec_name.upper().split("-")
    return parts[0] if parts[-1].endswith("GB") else parts[-1]


KIND = CudaKind()
