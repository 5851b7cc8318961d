"""The seam between a device and everything above it.

A device is one folder `devices/<name>/` with a `DeviceKind` and a `DeviceAgent`. The command line and the daemon use
the kind; it loads no torch. The agent lives inside a job's process, over the common launch layer
(`devices/native/launch`). Nothing outside `devices` imports a device; that `soft` is the default is said in
`cli/device_flags.py` and `live/protocol/paths.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from neaptide.core.control.need import Need
from neaptide.devices.board import Board
from neaptide.devices.board import IterationFacts as IterationFacts  # a part of the seam


@dataclass(frozen=True, slots=True)
class DeviceName:
    """One device of a machine: its kind and its index among the devices of that kind."""

    kind: str  # its name, or the path of its kind.py
    index: int = 0

    @property
    def folder(self) -> str:
        """A name for the folder of its daemon."""
        name = Path(self.kind).parent.name if self.kind.endswith(".py") else self.kind
        return f"{name}-{self.index}"

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


@dataclass(frozen=True, kw_only=True)
class DeviceSettings:
    """What a user may choose about a device; each kind has a subclass for jobs and one for the board.

    Every field is a `setting`; None leaves it to the device. It becomes a flag of a command and a key of the `[device]`
    table. `__post_init__` raises ValueError for a value that the device cannot have, in one line that begins with the
    field's name.
    """

    def lost(self) -> list[str]:
        """What the user asked for and this machine does not have: one line for each. Changes nothing."""
        return []

    def or_else(self, other: Self) -> Self:
        """These settings, with the other's where these leave it to the device."""
        names = [each.name for each in fields(self)]
        return replace(self, **{name: getattr(other, name) for name in names if getattr(self, name) is None})


def setting(help_text: str) -> Any:
    """A field of DeviceSettings, with the help of its flag."""
    return field(default=None, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """What the process needs and holds on the device."""

    needed_bytes: int  # in live blocks
    needed_peak_bytes: int
    held_bytes: int  # leased
    held_peak_bytes: int
    spare_peak_bytes: int  # most free bytes inside leased chunks at a moment when a new chunk had to be leased
    outside_bytes: int = 0  # of the needed and held ones: those that are not in tensors, such as a GPU's context
    over_bytes: int = 0  # over the link: not leased, and blocks lie there, too


class KernelRecord(NamedTuple):
    """One kernel as the device ran it; times are on the steady clock."""

    name: str
    signature: int  # equal for equal kernels
    launch_ns: int
    start_ns: int
    end_ns: int
    needed_bytes: int  # in live blocks when it was launched, its own included
    held_bytes: int  # leased at that moment, or over the link
    scratch_bytes: int
    stream: int
    width: int  # SMs


class KernelLog(Protocol):
    """Kernels that were launched while a log was kept."""

    def read(self) -> Sequence[KernelRecord]:
        """The records, in the order in which the kernels began. Changes nothing."""

    def dropped(self) -> int:
        """How many kernels did not fit. Changes nothing."""


class LocalDevice(Protocol):
    """A device of this process, whether or not the process is a job. `devices.local` finds it."""

    spec_name: str  # of the device in `core.device`'s catalogue

    @property
    def sms(self) -> int:
        """How many SMs it has."""

    def launched(self) -> int:
        """How many kernels this process has launched. Changes nothing."""

    def log_kernels(self, records: int) -> AbstractContextManager[KernelLog]:
        """Keep a log of the last so many kernels that are launched inside the context."""


class DeviceAgent(LocalDevice, Protocol):
    """A device inside a job. Calls may come from any thread unless they say otherwise."""

    slot: int  # on the board
    device_type: str  # torch's name of the device, as the program sees it
    supplies: frozenset[Need]

    def hold_launches(self) -> None:
        """Make every launch wait from now on, before it takes memory."""

    def wait_for_held_launch(self, seconds: float) -> bool:
        """Wait until a launch is held; False when none was within that time. Changes nothing."""

    def release_launches(self) -> None:
        """Let held launches, and all after them, go on."""

    def refuse_launches(self, reason: str) -> None:
        """Make every launch, held ones too, raise the device's out-of-memory error with this reason."""

    def arm_iteration(self) -> None:
        """Make the next launch begin an iteration on the board and wait for its permit."""

    def disarm_iteration(self) -> bool:
        """The next launch begins no iteration after all; False, changing nothing, when one has come."""

    def end_iteration(self) -> IterationFacts | None:
        """End the iteration that was launched; None, changing nothing, when it launched nothing."""

    def take_recent(self) -> tuple[int, int]:
        """Most bytes needed and bytes allocated since the last call; starts both again."""

    def expect(self, lease_levels: Sequence[int]) -> None:
        """Have the board keep room for iterations: the most leased bytes from each kernel on. Empty: no forecast."""

    def run_without_daemon(self) -> None:
        """Open this process's permit, gates and caps, and restore its memory: the board's capacity alone bounds it.

        Called again and again while there is no daemon, because an eviction under way may finish after the daemon died,
        and must then be undone.
        """

    def daemon_is_silent(self, since_ns: int) -> bool:
        """Whether nothing was heard of the daemon for seconds: on the board, or since this time on the steady clock.

        Permits, gates and evictions heed that by themselves. Changes nothing.
        """

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:
        """Send reports to this socket, and own the descriptor. The other side knows of so many ended iterations."""

    def disconnect_reports(self) -> None:
        """Send no more reports."""

    def iterations_ended(self) -> int:
        """How many iterations the device has passed. Changes nothing."""

    def send(self, frame: bytes, *, after_device: bool = False) -> bool:
        """Send a frame now, or when the device has done what was launched; False when nobody is connected.

        Never waits: what the socket has no room for is sent when it has. If the other side does not read for so long
        that a mebibyte of frames of at most 16 KiB waits, the connection ends.
        """

    def report_progress(self, frame: bytes) -> None:
        """Send a frame that tells how far the iteration has come, when the device has done what was launched.

        It is left out while the process may begin iterations that no policy has started, and when the end of the
        iteration overtakes it.
        """

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        """Send a frame when the device has passed the iteration; its last eight bytes become the duration in ns.

        If the frame of an earlier iteration still waits for room in the socket, this one stands for both, with the sum
        of their durations.
        """

    def memory(self) -> MemoryFigures:
        """What the process needs and holds. Changes nothing."""

    def check(self) -> None:
        """Assert the invariants of the device's memory in this process. Changes nothing; for tests."""

    def close(self) -> None:
        """Finish what was launched and leave the board. Called once, by a process that goes on without the device."""

    def forget_after_fork(self) -> None:
        """In a forked child: close the handles that the child shares with its parent, and send nothing."""


class BoardFullError(RuntimeError):
    """All slots of the board are taken; one becomes free when a process leaves."""


class GpuPresentError(ValueError):
    """There is a GPU, and the user did not say whether to share it or the software GPU."""

    def __init__(self) -> None:
        super().__init__(
            "there is a GPU here, and neaptide has been tried on no GPU yet; "
            "to share it, set NEAPTIDE_DEVICE=cuda; to share the software GPU instead of it, set NEAPTIDE_DEVICE=soft"
        )


class DeviceKind(Protocol):
    """One kind of device, without torch. A machine may have several devices of a kind, numbered from 0."""

    name: str
    supplies: frozenset[Need]  # what policies may need here
    settings_type: type[DeviceSettings]  # what jobs find of the device
    board_settings_type: type[DeviceSettings]  # what a new board has

    def chunk_bytes(self, index: int = 0) -> int:
        """Memory is leased in units of this: what a new board has. Changes nothing."""

    def description(self, index: int = 0) -> str:
        """The device and its hardware in a few words, for reports. Changes nothing."""

    def default_budget_bytes(self, index: int = 0) -> int:
        """What all jobs together may hold unless the user says otherwise. Changes nothing."""

    def used_bytes(self, index: int = 0) -> int | None:
        """Bytes of the device in use, by its own count; None where nobody but the board counts. Changes nothing."""

    def most_bytes(self, board: Board) -> int | None:
        """Most bytes that the board's jobs can have beside processes that are not on it; None: as many as there are.

        Changes nothing. The daemon asks once a second.
        """

    def environment(self, settings: Any, board: Path, *, best_effort: bool = True) -> dict[str, str]:
        """The variables with which a job is started, so that `attach` finds this board. Changes nothing."""

    def services(self, board: Path, settings: Any) -> AbstractContextManager[None]:
        """What runs beside the daemon of a board: inside, jobs find it. `settings` is a `board_settings_type`."""

    def create_board(self, path: Path, budget_bytes: int, settings: Any) -> Board:
        """Make the board; there is no file at this path. `settings` is a `board_settings_type`."""

    def prepare(self, first_use: Callable[[], None] | None = None) -> str:
        """Make the device ready for the program of this process, which has imported torch; torch's name of the device.

        `first_use` is called once, on the program's thread, when the program first uses the device and before it has
        done anything there. It calls `attach`. What it raises, the program sees. Without it, the device then starts on
        a board of this process's own. A device that has no such moment calls it at once.
        """

    def unprepare(self) -> None:
        """Undo `prepare`, in a process that goes on after the program."""

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:
        """Join the board from inside a job, and start the device there with its launches held.

        Environment variables may name another board. BoardFullError when there is no free slot; ValueError when this
        process uses the device already, on a board of its own.
        """
