"""The runtime directory is the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neaptide.live.protocol.paths import RuntimeDirectoryError, RuntimePaths, prepare, runtime_paths, temporary_paths


def test_the_variable_comes_before_the_users_runtime_directory_and_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEAPTIDE_RUNTIME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert runtime_paths().folder == Path(f"/tmp/neaptide-{os.getuid()}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime_paths().folder == Path("/run/user/7/neaptide")
    monkeypatch.setenv("NEAPTIDE_RUNTIME", "/somewhere")
    assert runtime_paths().socket == Path("/somewhere/daemon.sock")


def test_every_device_but_the_default_one_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEAPTIDE_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    for device, folder in (("soft:0", ""), ("soft:1", "-soft-1"), ("/x/mine/kind.py:2", "-mine-2")):
        monkeypatch.setenv("NEAPTIDE_DEVICE", device)
        assert runtime_paths().folder == Path(f"/run/user/7/neaptide{folder}")


def test_the_directory_is_made_for_the_user_alone_and_closed_to_others(tmp_path: Path) -> None:
    prepare(RuntimePaths(tmp_path / "new"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    prepare(RuntimePaths(tmp_path / "open"))
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700


def test_a_file_or_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeDirectoryError, match="set NEAPTIDE_RUNTIME"):
        prepare(RuntimePaths(tmp_path / "file"))
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with pytest.raises(RuntimeDirectoryError, match="is not a directory"):
        prepare(RuntimePaths(tmp_path / "link"))


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(RuntimeDirectoryError, match="belongs to another user"):
        prepare(RuntimePaths(tmp_path))


def test_a_path_too_long_for_a_socket_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(RuntimeDirectoryError, match="too long for a socket"):
        prepare(RuntimePaths(tmp_path / ("x" * 120)))
    assert not list(tmp_path.iterdir())


def test_jobs_in_other_folders_find_a_runtime_directory_that_is_named_relatively(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NEAPTIDE_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "here")
    assert runtime_paths().folder == Path.cwd() / "here" / "neaptide"


def test_a_run_makes_its_own_folder_where_a_socket_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert temporary_paths().folder.parent == tmp_path
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(deep))
    assert temporary_paths().folder.parent == Path("/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert temporary_paths().folder.parent == tmp_path
