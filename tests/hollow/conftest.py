"""Tests of the hollow device. They run in the venv that `make test-cuda` sets up, and are left out in any other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hollow.board import Board
from hollow.place import LIBRARY
from hollow.remote import Remote

if not LIBRARY.exists():
    collect_ignore_glob = ["test_*.py"]

MakeRemote = Callable[..., Remote]


@pytest.fixture
def board_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else request.getfixturevalue("tmp_path")
    path = Path(folder) / f"hollow-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)
    shutil.rmtree(f"{path}.pages", ignore_errors=True)


@pytest.fixture
def process(board_path: Path) -> Iterator[MakeRemote]:
    """Makes processes on the device; they are gone after the test."""
    made: list[Remote] = []

    def make(prelude: str = "from hollow.cuda import *", **settings: str) -> Remote:
        made.append(Remote(board_path, prelude, **settings))
        return made[-1]

    yield make
    for remote in made:
        remote.close()


@pytest.fixture
def board(board_path: Path) -> Iterator[Board]:
    board = Board(board_path)
    yield board
    board.close()
