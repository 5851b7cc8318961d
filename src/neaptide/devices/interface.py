"""The seam between a device and everything above it.

A device is one folder `devices/<name>/` with a `DeviceKind` and a `DeviceAgent`. The command line and the daemon use
the kind; it loads no torch. The agent lives inside a job's process, over the common launch layer
(`devices/native/launch`). Nothing outside `devices` names a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from neaptide.core.control.need import Need
from neaptide.devices.board import Board


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

    def or_else(self, other: Self) -> Self:
        """These settings, with the other's where these leave it to the device."""
        names = [each.name for each in fields(self)]
        return replace(self, **{name: getattr(other, name) for name in names if getattr(self, name) is None})


def setting(help_text: str) -> Any:
    """A field of DeviceSettings, with the help of its flag."""
    return field(default=None, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class IterationFacts:
    """What the device saw of one launched iteration."""

    index: int  # of the iteration on the board, 0 for the first
    began_ns: int  # when its first launch was permitted, on the steady clock
    peak_bytes: int  # most bytes in live blocks since the iteration before it ended
    allocated_bytes: int  # bytes allocated since then


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """What the process needs and holds on the device."""

    needed_bytes: int  # in live blocks
    needed_peak_bytes: int
    held_bytes: int  # leased
    held_peak_bytes: int
    spare_peak_bytes: int  # most free bytes inside leased chunks at a moment when a new chunk had to be leased


class KernelRecord(NamedTuple):
    """One kernel as the device ran it; times are on the steady clock."""

    name: str
    signature: int  # equal for equal kernels
    launch_ns: int
    start_ns: int
    end_ns: int
    taken_bytes: int  # allocated since the launch before this one
    given_bytes: int  # freed since then
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
    sms: int

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

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:
        """Send reports to this socket. The other side knows of so many ended iterations."""

    def disconnect_reports(self) -> None:
        """Send no more reports."""

    def iterations_ended(self) -> int:
        """How many iterations the device has passed. Changes nothing."""

    def send(self, frame: bytes, *, after_device: bool = False) -> bool:
        """Send a frame now, or when the device has done what was launched; False when nobody is connected.

        A frame of at most 16 KiB never waits: if the socket has no room for it, the connection ends. A larger frame
        waits until the other side has read enough.
        """

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        """Send a frame when the device has passed the iteration; its last eight bytes become the duration in ns."""

    def memory(self) -> MemoryFigures:
        """What the process needs and holds. Changes nothing."""

    def check(self) -> None:
        """Assert the invariants of the device's memory in this process. Changes nothing; for tests."""

    def close(self) -> None:
        """Finish what was launched and leave the board. Called once, by a process that goes on without the device."""

    def forget_after_fork(self) -> None:
        """In a forked child: close the handles that the child shares with its parent, and send nothing."""


class DeviceKind(Protocol):
    """One kind of device, without torch. A machine may have several devices of a kind, numbered from 0."""

    name: str
    chunk_bytes: int  # memory is leased in units of this
    supplies: frozenset[Need]  # what policies may need here
    settings_type: type[DeviceSettings]  # what jobs find of the device
    board_settings_type: type[DeviceSettings]  # what a new board has

    def default_budget_bytes(self, index: int = 0) -> int:
        """What all jobs together may hold unless the user says otherwise. Changes nothing."""

    def environment(self, settings: Any, board: Path) -> dict[str, str]:
        """The variables with which a job is started, so that `attach` finds this board. Changes nothing."""

    def create_board(self, path: Path, budget_bytes: int, settings: Any) -> Board:
        """Open the board at this path, or make it. `settings` is a `board_settings_type`."""

    def attach(self, board: Path, job: str, index: int = 0) -> DeviceAgent:
        """Join the board from inside a job, and start the device there. Environment variables may name another board.

        ValueError when this process uses the device already, on a board of its own.
        """
