"""What a board shows, as Python values; devices/native/board.h says what each figure is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

PERMIT_ALL = 2**32 - 1
UNBOUNDED = 2**32 - 1
NO_CEILING = 2**64 - 1
ALWAYS = 2**64 - 1
NO_ITERATION = 2**64 - 1
SLOTS = 64
SMALL_CHUNK_BYTES = 2 << 20  # the chunk of a device unless it says otherwise
LARGEST_CHUNK_BYTES = 32 << 20
NO_LANE = 2**32 - 1
WHOLE_SHARE = 1_000_000


class SlotState(IntEnum):
    """What a process does, as it says itself; devices/native/board.h."""

    IDLE = 0
    RUNNING = 1
    WAITING_PERMIT = 2
    SUSPENDED = 3
    EVICTED = 4


class Request(IntEnum):
    """What the daemon asks of a process."""

    NONE = 0
    EVICT = 1
    RESTORE = 2
    SUSPEND = 3
    RESUME = 4


class ProcessState(IntEnum):
    """A process as the kernel sees it."""

    RUNNING = 0
    STOPPED = 1
    GONE = 2


class Progress(NamedTuple):
    """One slot, read word by word. A tuple, because it is made several times on the way to every permit."""

    iteration: int  # iterations begun so far
    entered: int  # of those, let in: by a permit, or because the daemon was silent
    age: int  # ticket of the running iteration: lower is older; NO_ITERATION outside
    launched: int
    done: int
    held_bytes: int
    over_bytes: int  # over the link
    wanted_bytes: int  # waited for now
    rest_bytes: int  # held when the running or else the last iteration was let in
    state: SlotState
    request: Request
    permit: int
    taken: bool  # a process has the slot
    pid: int
    waited_ns: int  # time in which it could not go on because of other jobs, the present wait left out
    waits_since_ns: int  # on the monotonic clock; 0: it does not wait
    stalled_ns: int  # of waited_ns, what a launch inside an iteration waited for memory


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """One process on the board."""

    slot: int
    pid: int
    start_time: int
    job: str
    state: SlotState
    request: Request
    permit: int
    heavy_open: bool
    inflight_cap: int
    deadline_class: bool
    share: int  # of the device's SM time, in millionths
    iteration: int
    age: int
    launched: int
    done: int
    held_bytes: int
    over_bytes: int  # over the link
    needed_bytes: int
    rest_bytes: int  # held when the running or else the last iteration was let in
    wanted_bytes: int
    ceiling_bytes: int
    limit_bytes: int
    lane: int | None

    @property
    def framework_bytes(self) -> int:
        """Leased bytes in no tensor of the program: a context, buffers of libraries, what chunks have beyond tensors.

        Inside an iteration, gaps that its tensors leave count, too.
        """
        return max(self.held_bytes + self.over_bytes - self.needed_bytes, 0)


@dataclass(frozen=True, slots=True)
class BoardFigures:
    """The whole board at one moment."""

    capacity_bytes: int
    used_bytes: int
    high_water_bytes: int
    over_bytes: int
    consistent: bool
    slots: tuple[SlotFigures, ...]


@dataclass(frozen=True, slots=True)
class IterationFacts:
    """What the device saw of one launched iteration."""

    index: int  # of the iteration on the board, 0 for the first
    began_ns: int  # when its first launch was permitted, on the steady clock
    peak_bytes: int  # most bytes in live blocks since the iteration before it ended
    allocated_bytes: int  # bytes allocated since then
