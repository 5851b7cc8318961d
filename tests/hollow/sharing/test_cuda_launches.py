"""What counts as a launch, what waits, and what an op costs on the hollow device."""

from __future__ import annotations

from pathlib import Path

import pytest

from hollow.board import Board as Device
from hollow.board import Tally
from hollow.sharing.cuda_daemon import until
from hollow.sharing.running import Hollow, kill, next_facts
from neaptide.devices import Board


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path)


def test_ops_count_alike_whether_their_arguments_are_shown_or_not(hollow: Hollow) -> None:
    facts = hollow.run("launches", CASE="counts")
    *single, training = facts["logged"]
    assert single == [1, 1, 1, 0, 1, 0, 0]  # views and work on the host launch nothing
    assert training > 10
    assert facts["free"] == facts["logged"]


def test_host_work_of_an_armed_iteration_goes_on_while_its_first_launch_waits(hollow: Hollow) -> None:
    assert hollow.run("launches", CASE="host") == {"host": 2, "before": False, "begun": 1}


def test_a_job_records_fewer_events_while_it_is_alone(hollow: Hollow) -> None:
    process = hollow.start("launches", CASE="launches")
    next_facts(process)
    device, board = Device(hollow.folder / "device"), Board.open(hollow.folder / "board")

    def recorded() -> int:
        return device.calls().get("cudaEventRecord", Tally()).calls

    def events(ops: int) -> int:
        before = recorded()
        assert process.stdin is not None
        process.stdin.write(f"{ops}\n")
        process.stdin.flush()
        launched = next_facts(process)["launched"]
        (slot,) = (slot for slot in board.snapshot().slots if slot.launched)
        assert slot.launched == launched  # all ops are told of when they are marked
        return recorded() - before

    try:
        alone = events(6400)
        neighbour = hollow.start("holder", BUDGET_MIB="512", TIDE_MIB="2")
        next_facts(neighbour)
        until(lambda: events(800) >= 800 / 8, "the job to notice its neighbour")
        kill(neighbour)
    finally:
        kill(process)
        device.close()
        board.close()
    assert alone < 6400 / 32
