"""What is in the package, and what its metadata say."""

from __future__ import annotations

import os
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import neaptide

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "neaptide"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DATA = PROJECT["tool"]["setuptools"]["package-data"]


def package_of(path: Path) -> Path:
    """The folder of the package that a file belongs to."""
    return next(folder for folder in path.parents if (folder / "__init__.py").is_file())


def is_installed(path: Path) -> bool:
    """Whether a wheel has this file: a module of a package, or its data."""
    package = package_of(path)
    if path.parent == package and path.suffix == ".py":
        return True
    dotted = ".".join(package.relative_to(SOURCE.parent).parts)
    inside = path.relative_to(package).as_posix()
    patterns = [*DATA["*"], *DATA.get(dotted, ())]
    return any(fnmatch(inside, pattern) or fnmatch(inside, pattern.removeprefix("**/")) for pattern in patterns)


def test_every_file_of_the_source_is_installed() -> None:
    files = [path for path in SOURCE.rglob("[!.]*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) > 300
    assert [str(path.relative_to(SOURCE)) for path in files if not is_installed(path)] == []


def test_a_file_of_an_unknown_kind_would_not_be_installed() -> None:
    assert is_installed(SOURCE / "devices" / "native" / "launch" / "gates.cpp")
    assert not is_installed(SOURCE / "devices" / "native" / "notes.txt")


def test_the_version_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == neaptide.__version__
    assert f"\nversion: {neaptide.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{neaptide.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_runs_every_python_that_the_package_names() -> None:
    named = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if "Python :: 3." in text]
    listed = ", ".join(f'"{version}"' for version in named)
    assert f"python: [{listed}]" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"


def make(target: str, folder: Path) -> str:
    """What `make` would do in a folder, without doing it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    words = ["make", "--dry-run", "-f", str(ROOT / "Makefile"), target]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which nothing was set up yet."""
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_demo_installs_what_users_need_and_says_what_that_takes_before_it_begins(clone: Path) -> None:
    done = make("demo", clone)
    assert "-e .\n" in done
    assert ".[dev]" not in done
    assert done.index("a download of about") < done.index("pip install")


def test_developers_get_their_tools_and_the_demo_then_uses_them(clone: Path) -> None:
    assert "pip install" in (done := make("check", clone))
    assert "-e '.[dev]'" in done
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".ready").touch()
    assert "pip install" not in make("demo", clone)
