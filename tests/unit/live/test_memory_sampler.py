"""What jobs hold, looked at from beside."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

from neaptide.devices.board import Board
from neaptide.live.runs.memory_sampler import MemorySample, MemorySampler, Samples


def test_all_samples_are_kept_while_there_is_room() -> None:
    samples = Samples(most=10)
    for at_ns in range(9):
        samples.add(MemorySample(at_ns, {"a": at_ns}))
    assert [sample.at_ns for sample in samples.kept()] == list(range(9))


def test_of_a_long_run_the_highest_are_kept_over_its_whole_length() -> None:
    samples = Samples(most=10)
    for at_ns in range(1000):
        samples.add(MemorySample(at_ns, {"a": 1 + (at_ns == 777), "b": 3}))
    kept = samples.kept()
    assert len(kept) < 10
    assert kept[0].at_ns < 200
    assert kept[-1].at_ns > 700
    assert max(sample.total_bytes for sample in kept) == 5
    assert sorted(kept, key=lambda sample: sample.at_ns) == kept


def test_a_sampler_sees_the_board_and_says_so_once_for_what_does_not_change(tmp_path: Path) -> None:
    board = Board.create(tmp_path / "board", 64 << 20, 1)
    sampler = MemorySampler(board, interval_seconds=0.001)
    until = monotonic() + 60
    while sampler.looks < 5:
        assert monotonic() < until
        sleep(0.005)
    assert sampler.close() == []  # nobody was on it
    board.close()
