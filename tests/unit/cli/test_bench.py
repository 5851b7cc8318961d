"""`neaptide bench` runs the files of benchmarks/."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest

from neaptide.cli.commands import bench
from neaptide.cli.commands.bench import benchmark_directories, find_benchmark

HEAD = "from neaptide.reporting.terminal.bench import Figure\n"
BENCHMARKS = {
    "speed": HEAD + "def figures():\n    yield Figure('time', 2.5, 's', '<= 3')\n    yield Figure('size', 7, 'KiB')\n",
    "missed": HEAD + "def figures():\n    yield Figure('time', 2.5, 's', '<= 2')\n",
    "raising": HEAD + "def figures():\n    yield Figure('time', 2.5, 's')\n    raise KeyError('x')\n",
    "without": "x = 1\n",
    "numbers": "def figures():\n    yield 3\n",
    "misspelt": "x = (",
    "_helper": "",
}


@pytest.fixture(autouse=True)
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "benchmarks"
    directory.mkdir()
    for name, text in BENCHMARKS.items():
        (directory / f"{name}.py").write_text(text)
    monkeypatch.setattr(bench, "benchmark_directories", lambda: [directory])
    monkeypatch.setattr(sys, "path", sys.path[:])
    return directory


def test_figures_are_printed_as_they_come_and_as_a_table(run: Any) -> None:
    outcome = run("bench", "speed")
    assert outcome.code == 0
    assert outcome.err.splitlines() == ["time: 2.5 s (goal <= 3)", "size: 7 KiB"]  # as they come
    rows = [line.split() for line in outcome.out.splitlines()]
    assert rows[2:] == [["time", "2.5", "s", "<=", "3", "yes"], ["size", "7", "KiB"]]


def test_the_last_line_is_json(run: Any) -> None:
    report = json.loads(run("bench", "missed", "--json").out.splitlines()[-1])
    assert report["name"] == "missed"
    assert report["figures"] == [{"name": "time", "value": 2.5, "unit": "s", "goal": "<= 2", "met": False}]


@pytest.mark.parametrize(("words", "code"), [("missed", 0), ("missed --check", 1), ("speed --check", 0)])
def test_a_missed_goal_fails_the_command_only_with_the_check_option(run: Any, words: str, code: int) -> None:
    assert run("bench", *words.split()).code == code


def test_a_benchmark_that_raises_shows_its_figures_and_its_traceback(run: Any, benchmarks: Path) -> None:
    outcome = run("bench", "raising", "--json")
    assert outcome.code == 1
    assert "2.5" in outcome.out
    assert outcome.err.splitlines()[1:] == [
        "Traceback (most recent call last):",
        f'  File "{benchmarks / "raising.py"}", line 4, in figures',
        "    raise KeyError('x')",
        "KeyError: 'x'",
        "neaptide: benchmark raising failed",
    ]


@pytest.mark.parametrize(("name", "code"), [("speed", 0), ("raising", 1)])
def test_figures_that_cannot_be_written_to_stderr_do_not_change_the_exit_code(
    run: Any, full: io.StringIO, name: str, code: int
) -> None:
    with redirect_stderr(full):
        outcome = run("bench", name)
    assert outcome.code == code
    assert "2.5" in outcome.out


def test_a_benchmark_with_a_syntax_error_shows_its_line(run: Any) -> None:
    outcome = run("bench", "misspelt")
    assert outcome.code == 1
    assert "SyntaxError" in outcome.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("", "name a benchmark; there are missed, misspelt, numbers, raising, speed, without"),
        ("sped", "no benchmark is called 'sped'; did you mean speed or"),
        ("_helper", "no benchmark is called '_helper'"),
        ("without", "without.py defines no function figures()"),
        ("numbers", "must yield Figure, not 3"),
    ],
)
def test_a_wrong_benchmark_is_reported_in_one_line(run: Any, words: str, part: str) -> None:
    outcome = run("bench", *words.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


def test_a_missing_directory_of_benchmarks_is_reported() -> None:
    with pytest.raises(ValueError, match="there is no directory benchmarks here"):
        find_benchmark("speed", [])


def test_benchmarks_are_also_looked_for_in_the_current_directory(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(benchmarks.parent)
    assert benchmark_directories()[-1] == benchmarks
