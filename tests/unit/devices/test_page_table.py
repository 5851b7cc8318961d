"""The pages of a GPU on its board, as its keeper sees them; there is no GPU here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neaptide.devices.board import Board, Region
from neaptide.devices.cuda.page_table import PageCounts, PageTable

MIB = 1 << 20
SOME_GPU = 1 << 63 | 1 << 8


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board.create(tmp_path / "board", 8 * MIB, Region("cuda", SOME_GPU))
    yield board
    board.close()


def make(table: PageTable) -> int | None:
    page = table.announce()
    if page is not None:
        table.settle(page, there=True)
    return page


def test_no_more_pages_are_made_than_the_budget_has_room_for(board: Board) -> None:
    table = PageTable(board)
    assert table.begin()
    assert [make(table) for _ in range(5)] == [0, 1, 2, 3, None]
    assert table.counts() == PageCounts(there=4, free=4, retiring=0)


def test_a_page_counts_from_its_announcement_on(board: Board) -> None:
    table = PageTable(board)
    table.begin()
    page = table.announce()
    assert page == 0
    assert table.counts().there == 1
    table.settle(page, there=False)
    assert table.counts().there == 0


def test_a_lower_budget_retires_free_pages_until_the_rest_fits(board: Board) -> None:
    table = PageTable(board)
    table.begin()
    for _ in range(4):
        make(table)
    assert table.retire() == 0
    board.set_capacity(4 * MIB)
    assert table.retire() == 2
    assert table.retire() == 0
    assert table.counts() == PageCounts(there=4, free=2, retiring=2)
    for page in table.take_unheld():
        table.settle(page, there=False)
    assert table.counts() == PageCounts(there=2, free=2, retiring=0)


def test_a_new_keeper_retires_the_free_pages_of_the_last_one(board: Board) -> None:
    table = PageTable(board)
    table.begin()
    make(table), make(table)
    table.announce()  # and dies
    assert table.keeper_pid == os.getpid()
    assert table.begin()
    assert table.counts() == PageCounts(there=2, free=2, retiring=0)
    assert table.retire() == 2
    assert len(table.take_unheld()) == 2


def test_a_board_of_another_device_has_no_pages(tmp_path: Path) -> None:
    board = Board.create(tmp_path / "soft", 8 * MIB, Region("soft", 2))
    with pytest.raises(ValueError, match="of another device"):
        PageTable(board).begin()
    board.close()
