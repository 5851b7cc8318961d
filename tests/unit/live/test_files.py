"""The daemon's files in the runtime folder: nobody replaces a board in use, and what was removed is put back."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from board_member import Member
from neaptide.devices.board import Board, BoardError
from neaptide.live.daemon.io import files
from neaptide.live.daemon.io.files import RuntimeFiles, open_board
from neaptide.live.daemon.io.listening_socket import ListeningSocket
from neaptide.live.protocol.lock import DaemonLock, DaemonRunsError
from neaptide.live.protocol.paths import RuntimePaths, prepare

MIB = 1 << 20


def make(path: Path, capacity_bytes: int = 9 * MIB) -> Callable[[], Board]:
    return lambda: Board.create(path, capacity_bytes)


def test_a_board_in_use_is_kept_and_one_without_jobs_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "board"
    member = Member(open_board(path, make(path)), "job")
    kept = open_board(path, make(path, 5 * MIB))
    assert kept.snapshot().capacity_bytes == 9 * MIB
    member.leave()
    assert open_board(path, make(path, 5 * MIB)).snapshot().capacity_bytes == 5 * MIB
    assert [each.name for each in tmp_path.iterdir()] == ["board"]


@pytest.mark.parametrize("damage", [b"", b"text", b"\0" * 100_000], ids=["empty", "text", "zeros"])
def test_a_file_that_is_no_board_and_not_in_use_is_replaced(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "board"
    path.write_bytes(damage)
    assert open_board(path, make(path)).snapshot().capacity_bytes == 9 * MIB


def test_the_board_of_a_daemon_that_is_gone_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "board"
    path.symlink_to("/proc/1/fd/999999")  # left where the folder was emptied under that daemon
    assert open_board(path, make(path)).snapshot().capacity_bytes == 9 * MIB


def test_a_second_daemon_is_kept_away_also_when_the_folder_was_emptied(tmp_path: Path) -> None:
    paths = RuntimePaths(tmp_path / "run")
    prepare(paths)
    with DaemonLock(paths) as lock:
        paths.pid.unlink()
        assert not lock.is_in_place
        with pytest.raises(DaemonRunsError, match="runs for this device already"), DaemonLock(paths):
            pass
        assert lock.put_back()
        assert lock.is_in_place
        shutil.rmtree(paths.folder)
        prepare(paths)
        with DaemonLock(paths):  # of the new folder
            assert not lock.put_back()


def test_a_board_that_was_cut_within_its_last_page_is_made_whole_for_new_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.001)
    paths = RuntimePaths(tmp_path / "run")
    prepare(paths)

    async def scene() -> None:
        with DaemonLock(paths) as lock:
            board = open_board(paths.board, make(paths.board))
            size = paths.board.stat().st_size
            listener = ListeningSocket(paths.socket, asyncio.Protocol)
            await listener.bind()
            keeping = asyncio.ensure_future(RuntimeFiles(paths, lock, board, listener).keep(lambda _: None))
            os.truncate(paths.board, size - 1)
            with pytest.raises(BoardError, match="damaged"):
                Board.open(paths.board)
            while paths.board.stat().st_size != size:
                await asyncio.sleep(0.001)
            Member(Board.open(paths.board), "late").leave()
            keeping.cancel()
            listener.close()

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_what_was_removed_from_the_folder_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.001)
    paths = RuntimePaths(tmp_path / "run")
    prepare(paths)
    said: list[str] = []

    async def scene() -> None:
        with DaemonLock(paths) as lock:
            board = open_board(paths.board, make(paths.board))
            listener = ListeningSocket(paths.socket, asyncio.Protocol)
            await listener.bind()
            keeping = asyncio.ensure_future(RuntimeFiles(paths, lock, board, listener).keep(said.append))
            before = Member(board, "before")
            assert before.take(6 * MIB)
            for remove in (_empty, shutil.rmtree):
                remove(paths.folder)
                while not (lock.is_in_place and board.is_at_its_path and listener.is_at_its_path):
                    await asyncio.sleep(0.001)
                with socket.socket(socket.AF_UNIX) as line:
                    line.connect(str(paths.socket))
                late = Member(Board.open(paths.board), "late")
                assert not late.take(6 * MIB)  # there is one budget
                assert late.take(3 * MIB)
                late.leave()
            before.leave()
            shutil.rmtree(paths.folder)
            prepare(paths)
            with DaemonLock(paths):
                await keeping
            listener.close()

    asyncio.run(asyncio.wait_for(scene(), 30))
    assert len([line for line in said if "put its own back" in line]) == 2
    assert "another daemon runs" in said[-1]


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()


def test_that_files_cannot_be_put_back_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.0)
    paths = RuntimePaths(tmp_path / "run")
    prepare(paths)

    async def scene() -> list[str]:
        with DaemonLock(paths) as lock:
            board = open_board(paths.board, make(paths.board))
            listener = ListeningSocket(paths.socket, asyncio.Protocol)
            await listener.bind()
            guard, said, looks = RuntimeFiles(paths, lock, board, listener), list[str](), 0

            async def look(_: Callable[[str], None]) -> bool:
                nonlocal looks
                looks += 1
                if looks == 5:
                    raise asyncio.CancelledError
                if looks == 3:
                    return True
                raise OSError("no space")

            monkeypatch.setattr(guard, "_look", look)
            with pytest.raises(asyncio.CancelledError):
                await guard.keep(said.append)
            listener.close()
            board.close()
            return said

    said = asyncio.run(scene())
    assert len(said) == 2  # it went well in between
    assert said[0].endswith("cannot be put back: no space")
