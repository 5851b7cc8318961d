"""Building the native part, and the errors where that is not possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from neaptide.native_library import NativeLibrary
from neaptide.simulation.library import NATIVE


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEAPTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache"


def test_the_library_is_built_once_and_nothing_else_is_left_behind(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = NATIVE.built()
    assert list(empty_cache.iterdir()) == [path]
    NATIVE.load({"layout": (None, ())})

    def never(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(NativeLibrary, "_compile", never)
    assert NATIVE.built() == path


def test_a_missing_compiler_is_named(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(
        ValueError, match=r"^the simulator needs a C\+\+ compiler .*'no-such-compiler -x' was not found"
    ):
        NATIVE.built()
    assert not empty_cache.exists()


def test_a_cache_that_cannot_be_written_is_named(empty_cache: Path) -> None:
    empty_cache.write_text("a file where the folder should be")
    with pytest.raises(ValueError, match=r"cache is not writable \(.*\); set NEAPTIDE_CACHE$"):
        NATIVE.built()


def test_a_compiler_that_fails_leaves_no_file(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(ValueError, match=r"^the simulator cannot be built: false says"):
        NATIVE.built()
    assert list(empty_cache.iterdir()) == []


def test_another_compiler_is_another_build() -> None:
    assert NATIVE.digest("g++") == NATIVE.digest("g++") != NATIVE.digest("clang++")
