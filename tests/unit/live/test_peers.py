"""Jobs, commands and the daemon trust a folder, a socket and a board of the user alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from neaptide.devices.board import Board, BoardError, Region
from neaptide.live.job.attach import attach
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import StatusRequest
from neaptide.live.protocol.paths import RuntimeDirectoryError, RuntimePaths, check_folder, prepare
from neaptide.live.protocol.peers import connect
from neaptide.peer import Peer

STRANGER = 4711


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[RuntimePaths]:
    paths = RuntimePaths(tmp_path / "run")
    prepare(paths)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        yield paths


def test_the_kernel_says_who_is_at_the_other_end(listening: RuntimePaths) -> None:
    with connect(listening.socket, 5) as line:
        assert Peer.of(line) == Peer(os.getpid(), os.geteuid())


def test_a_daemon_of_another_user_is_not_spoken_to(listening: RuntimePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "of", classmethod(lambda cls, _: cls(1, STRANGER)))
    with pytest.raises(RuntimeDirectoryError, match=rf"^user {STRANGER} listens at .*, not you; set NEAPTIDE_RUNTIME$"):
        ask(listening, StatusRequest())


def writable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001
    folder.chmod(0o777)
    return "other users may write into"


def a_strangers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    return "belongs to another user"


def a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    return "is not a directory"


@pytest.mark.parametrize("spoil", [writable, a_strangers, a_link])
def test_a_folder_that_others_may_have_prepared_is_refused_by_everybody_in_one_line(
    spoil: object, listening: RuntimePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = spoil(listening.folder, monkeypatch)  # type: ignore[operator]
    monkeypatch.setenv("NEAPTIDE_SOCKET", str(listening.socket))
    for opens in (
        lambda: check_folder(listening.folder),
        lambda: prepare(listening),
        lambda: running_pid(listening),
        lambda: ask(listening, StatusRequest()),
        lambda: connect(listening.socket, 5),
        lambda: attach("job"),
    ):
        with pytest.raises(RuntimeDirectoryError, match=problem) as refused:
            opens()
        assert "\n" not in str(refused.value)


def test_where_there_is_no_folder_there_is_no_daemon(tmp_path: Path) -> None:
    paths = RuntimePaths(tmp_path / "none")
    assert running_pid(paths) is None
    with pytest.raises(NoDaemonError, match="start one with neaptide up"):
        ask(paths, StatusRequest())


def test_a_board_into_which_others_may_write_is_refused(tmp_path: Path) -> None:
    Board.create(tmp_path / "board", 1 << 30, Region(None, 2)).close()
    (tmp_path / "board").chmod(0o622)
    with pytest.raises(BoardError, match="other users may write to it"):
        Board.open(tmp_path / "board")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_board_of_another_user_is_refused(tmp_path: Path) -> None:
    Board.create(tmp_path / "board", 1 << 30, Region(None, 2)).close()
    os.chown(tmp_path / "board", STRANGER, -1)
    with pytest.raises(BoardError, match="belongs to another user"):
        Board.open(tmp_path / "board")
