"""The fake device: kernels take the time that they were launched with, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neaptide.devices import Board, Region
from neaptide.devices.board.figures import ALWAYS
from neaptide.devices.fake.agent import FakeAgent

MIB = 1 << 20
MS = 1_000_000


class Device:
    """One job on a board, and its clock."""

    def __init__(self, folder: Path) -> None:
        self.now_ns = 0
        self.board = Board.create(folder / "board", 20 * MIB, Region(None, 2))
        self.agent = FakeAgent(self.board, "job", lambda: self.now_ns)

    def at(self, milliseconds: int) -> FakeAgent:
        """The agent at this time."""
        self.now_ns = milliseconds * MS
        self.agent.advance()
        return self.agent


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    device = Device(tmp_path)
    yield device
    device.agent.close()
    assert device.board.snapshot().used_bytes == 0
    device.board.close()


def test_kernels_run_one_after_the_other_and_take_their_time(device: Device) -> None:
    with device.agent.log_kernels(10) as log:
        assert device.agent.try_launch(0.003)
        assert device.agent.try_launch(0.002, width=2, name="wide")
        assert device.agent.next_ns() == 3 * MS
        assert not device.at(4).idle
        assert device.at(5).idle
        records = [(record.name, record.start_ns, record.end_ns, record.width) for record in log.read()]
    assert records == [("kernel", 0, 3 * MS, 1), ("wide", 3 * MS, 5 * MS, 2)]


def test_a_heavy_kernel_begins_when_its_gate_opens(device: Device) -> None:
    device.board.set_gate(device.agent.slot, 0)
    device.agent.try_launch(0.001, width=2)
    assert device.at(7).next_ns() is None
    device.board.set_gate(device.agent.slot, ALWAYS)
    assert device.agent.next_ns() == 8 * MS


def test_memory_returns_when_the_device_has_passed_its_last_use(device: Device) -> None:
    address = device.agent.try_allocate(8 * MIB)
    assert address is not None
    device.agent.try_launch(0.002)
    device.agent.free(address)
    assert device.at(1).memory().held_bytes == 8 * MIB
    assert device.at(2).memory().needed_bytes == 0
    device.agent.check()


def test_a_kernel_takes_longer_by_what_it_moves_over_the_link(device: Device) -> None:
    """Of 8 MiB, 6 are beyond the limit: three quarters of 10 MB cross a link of 10 GB/s."""
    device.board.set_limit(device.agent.slot, 2 * MIB)
    address = device.agent.try_allocate(8 * MIB)
    assert address is not None
    memory = device.agent.memory()
    assert (memory.held_bytes, memory.over_bytes) == (2 * MIB, 6 * MIB)
    seen = device.board.snapshot()
    assert (seen.used_bytes, seen.over_bytes) == (2 * MIB, 6 * MIB)
    assert (seen.slots[0].over_bytes, seen.slots[0].limit_bytes) == (6 * MIB, 2 * MIB)
    with device.agent.log_kernels(1) as log:
        device.agent.try_launch(0.001, moved_bytes=10_000_000)
        assert device.agent.next_ns() == MS + 750_000
        device.at(2)
        assert [record.held_bytes for record in log.read()] == [8 * MIB]
    device.agent.try_launch(0.001)
    assert device.agent.next_ns() == 3 * MS
    device.at(3).free(address)
    device.agent.check()
    assert device.board.snapshot().over_bytes == 0


def test_on_an_oversubscribed_board_a_job_does_not_wait_for_memory(device: Device) -> None:
    """40 MiB on 20: half of what a kernel moves is fetched, and as much written back, at 8.2/12 of 10 GB/s."""
    device.board.set_oversubscribed(True)
    address = device.agent.try_allocate(40 * MIB)
    assert address is not None
    assert device.board.snapshot().used_bytes == 20 * MIB
    device.agent.try_launch(0.001, moved_bytes=8_200_000)
    assert device.agent.next_ns() in (2_200_000, 2_200_001)
    device.at(3).free(address)


def test_a_held_launch_waits_and_takes_no_memory(device: Device) -> None:
    device.agent.hold_launches()
    assert device.agent.try_allocate(2 * MIB) is None
    assert not device.agent.try_launch(0.001)
    assert device.agent.wait_for_held_launch(0)
    assert device.agent.memory().held_bytes == 0
    device.agent.release_launches()
    assert device.agent.try_launch(0.001)


def test_a_refused_launch_and_a_block_larger_than_the_device_raise(device: Device) -> None:
    with pytest.raises(MemoryError):
        device.agent.try_allocate(22 * MIB)
    device.agent.refuse_launches("no room")
    with pytest.raises(MemoryError, match="no room"):
        device.agent.try_launch(0.001)
