"""The software GPU as the command line and the daemon see it, without torch.

It imports nothing from its own package: importing `neaptide.devices.soft` starts the device.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from neaptide.core.control.need import Need
from neaptide.core.text import complain_aside
from neaptide.core.units import parse_bytes, parse_seconds
from neaptide.devices.board import Board, Region
from neaptide.devices.board.figures import SMALL_CHUNK_BYTES
from neaptide.devices.gpu_presence import torch_finds_gpu
from neaptide.devices.interface import DeviceAgent, DeviceSettings, GpuPresentError, setting

MOST_SMS = 1024  # of a board
_MEMORY_WAIT_SECONDS = 10 * 365 * 86400  # no job dies for memory that others hold


@dataclass(frozen=True, kw_only=True)
class SoftSettings(DeviceSettings):
    """What jobs find of the software GPU."""

    sms: int | None = setting("Most SMs that a kernel of one job uses. Default: all.")
    wait: str | float | None = setting("How long a job waits for memory before it fails. Default: as long as it takes.")
    link: str | None = setting("Bytes per second between the device and host memory over the link. Default: 10GB.")
    cuda_as_soft: bool | None = setting("Where there is no GPU, give the software GPU to programs that ask for cuda.")

    def __post_init__(self) -> None:
        _check_sms(self.sms)
        if self.wait is not None and not 0 <= self._wait_seconds < 2**33:
            raise ValueError(f"wait: {self.wait} is not a time; write it like 50ms or 1.5s")

        if self.link is not None:
            try:
                parse_link(self.link)
            except ValueError as error:
                raise ValueError(f"link: {error}") from None

    @property
    def _wait_seconds(self) -> float:
        assert self.wait is not None
        try:
            return parse_seconds(self.wait) if isinstance(self.wait, str) else float(self.wait)
        except ValueError as error:
            raise ValueError(f"wait: {error}") from None

    def environment(self) -> dict[str, str]:
        """The variables that devices/soft/settings.py and SoftKind.attach read."""
        variables = {"NEAPTIDE_CUDA_AS_SOFT": "0" if self.cuda_as_soft is False else "1"}
        if self.sms is not None:
            variables["NEAPTIDE_SOFT_SMS"] = str(self.sms)
        if self.wait is not None:
            variables["NEAPTIDE_SOFT_WAIT"] = str(self._wait_seconds)
        if self.link is not None:
            variables["NEAPTIDE_SOFT_LINK"] = self.link
        return variables


@dataclass(frozen=True, kw_only=True)
class SoftBoardSettings(DeviceSettings):
    """What a new board has."""

    sms: int | None = setting("How many cores the software GPU has. Default: all.")

    def __post_init__(self) -> None:
        _check_sms(self.sms)


class SoftKind:
    """A GPU made of the machine's cores and memory."""

    name = "soft"
    supplies = frozenset(Need)
    settings_type: type[DeviceSettings] = SoftSettings
    board_settings_type: type[DeviceSettings] = SoftBoardSettings

    def chunk_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - the same for all
        """The smallest there are."""
        return SMALL_CHUNK_BYTES

    def description(self, index: int = 0) -> str:  # noqa: ARG002 - all have the machine's cores
        """The software GPU, and the processor whose cores it is made of."""
        cores = len(os.sched_getaffinity(0))
        return f"software GPU on {_processor()}, {cores} {'core' if cores == 1 else 'cores'}"

    def default_budget_bytes(self, index: int = 0) -> int:  # noqa: ARG002 - all have the machine's memory
        """Half of the machine's memory."""
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return memory_bytes // 2 // SMALL_CHUNK_BYTES * SMALL_CHUNK_BYTES

    def used_bytes(self, index: int = 0) -> int | None:  # noqa: ARG002
        """Only the board counts."""
        return None

    def most_bytes(self, board: Board) -> int | None:  # noqa: ARG002
        """Nobody else uses it."""
        return None

    def environment(
        self,
        settings: SoftSettings,
        board: Path,
        *,
        best_effort: bool = True,  # noqa: ARG002 - the board has a job's class
    ) -> dict[str, str]:
        """A GPU is hidden from the job, so that its torch finds this device alone."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if torch_finds_gpu() else {}
        return {"NEAPTIDE_SOFT_BOARD": str(board), "NEAPTIDE_SOFT_NEW_BOARD": "0", **hidden, **settings.environment()}

    def services(self, board: Path, settings: SoftBoardSettings) -> AbstractContextManager[None]:  # noqa: ARG002
        """None are needed."""
        return nullcontext()

    def create_board(self, path: Path, budget_bytes: int, settings: SoftBoardSettings) -> Board:
        """With as many SMs as there are cores, unless the settings say otherwise."""
        return Board.create(path, budget_bytes, Region("soft", settings.sms or len(os.sched_getaffinity(0))))

    def prepare(self, first_use: Callable[[], None] | None = None) -> str:
        """`cuda` means this device, unless NEAPTIDE_CUDA_AS_SOFT is 0. ValueError where torch finds a GPU."""
        import torch

        check_no_gpu()
        from neaptide.devices.soft import as_cuda, registering, starting  # noqa: F401 - makes the device

        if first_use is not None and starting.started():
            raise ValueError("the software GPU is in use already; call neaptide.attach before the program uses it")
        if os.environ.get("NEAPTIDE_CUDA_AS_SOFT") != "0":
            as_cuda.install()
        starting.start_by(first_use or _start_alone)
        return torch.device("soft").type

    def unprepare(self) -> None:
        """`cuda` is its own name again."""
        from neaptide.devices.soft import as_cuda, starting

        as_cuda.uninstall()
        starting.start_by(starting.start)

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:  # noqa: ARG002 - a board is a device
        """Start the device on NEAPTIDE_SOFT_BOARD, or else on this board."""
        from neaptide.devices.soft import starting
        from neaptide.devices.soft.agent import SoftAgent

        os.environ.setdefault("NEAPTIDE_SOFT_BOARD", str(board))
        os.environ["NEAPTIDE_SOFT_NEW_BOARD"] = "0"
        os.environ.setdefault("NEAPTIDE_SOFT_WAIT", str(_MEMORY_WAIT_SECONDS))
        os.environ.setdefault("NEAPTIDE_JOB", job)
        starting.start(held=True)
        return SoftAgent()


def parse_link(text: str) -> float:
    """Bytes per second from text such as `10GB` or `4GB/s`."""
    per_second = parse_bytes(text.strip().removesuffix("/s"))
    if per_second < 1:
        raise ValueError(f"{text!r} is no bandwidth; write it like 10GB")
    return float(per_second)


def check_no_gpu() -> None:
    """Raise ValueError where torch finds a GPU: beside it, this device would become that of `torch.accelerator`."""
    import torch

    made_already = torch._C._get_privateuse1_backend_name() == "soft"  # then torch.cuda may answer for it
    if made_already or not torch.cuda.is_available():
        return
    if os.environ.get("NEAPTIDE_DEVICE", "").partition(":")[0] != "soft":
        raise GpuPresentError
    raise ValueError("torch finds a GPU here; to use the software GPU instead of it, set CUDA_VISIBLE_DEVICES= (empty)")


def _check_sms(sms: int | None) -> None:
    if sms is not None and not 1 <= sms <= MOST_SMS:
        raise ValueError(f"sms must be between 1 and {MOST_SMS}, not {sms}")


def _processor() -> str:
    """The processor's name as the kernel has it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _start_alone() -> None:
    from neaptide.devices.soft import as_cuda, starting

    if as_cuda.installed():
        complain_aside("there is no GPU here, so cuda means the software GPU (soft)")
    starting.start()


KIND = SoftKind()
