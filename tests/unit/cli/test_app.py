"""The command's root: quick to answer, and errors end in one line."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import neaptide
from builders import training_trace
from neaptide.cli.app import app
from neaptide.core.traces.trace_format import encode
from neaptide.scenarios import sources

HEAVY = ("torch", "numpy", "matplotlib", "msgspec")


def python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["profile", "--help"],
        ["simulate", "--help"],
        ["reproduce", "--help"],
        ["bench", "--help"],
        ["run", "--help"],
        ["top", "--help"],
        ["report", "--help"],
        [],
    ],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; from neaptide.cli import main; code = main(sys.argv[1:]);"
        f"print('loaded', [name for name in {HEAVY} if name in sys.modules], code)"
    )
    assert python("-c", program, *words).stdout.endswith("loaded [] 0\n")


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = f"import sys, neaptide; print([name for name in {HEAVY} if name in sys.modules])"
    assert python("-c", program).stdout == "[]\n"


def test_version_prints_the_version(run: Any) -> None:
    assert run("--version").out == f"{neaptide.__version__}\n"


def test_help_names_the_commands_and_shows_how_scripts_are_given(run: Any) -> None:
    assert {"profile", "simulate", "reproduce", "bench", "run", "top", "report"} <= set(run("--help").out.split())
    text = run("profile", "--help").out
    assert "neaptide profile [OPTIONS] TARGET [ARGUMENTS...]" in text
    assert "neaptide profile --figure tide.pdf train.py --lr 0.1" in text


@pytest.mark.parametrize("command", sorted(name for name in app if not name.startswith("-")))
def test_help_fills_the_lines_of_a_terminal(run: Any, command: str) -> None:
    for paragraph in run(command, "--help").out.split("\n\n"):
        if paragraph[:1].isalpha() and not paragraph.startswith("Usage:"):
            for line, following in pairwise(paragraph.strip("\n").split("\n")):
                assert len(f"{line.rstrip()} {following.split()[0]}") > app.console.width


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["profle"], 'Did you mean "profile"?'),
        (["profile", "--bogus", "resnet50"], "Unknown option: --bogus"),
        (["profile", "resnet50", "--batch", "many"], 'unable to convert "many" into int'),
        (["profile", "resnet50", "--batch"], "requires an argument"),
        (["profile", "resnet50", "--scale", "huge"], 'Choose from: "paper", "tiny"'),
        (["status", "train.py"], "status takes no further argument 'train.py'; neaptide status --help lists"),
        (["reproduce", "zicoo"], 'Did you mean "zico"?'),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line(run: Any, words: list[str], part: str) -> None:
    outcome = run(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("neaptide: ")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("two\n  lines"), 2, "neaptide: two lines\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.toml"),
            2,
            "neaptide: x.toml: No such file or directory\n",
        ),
        (OSError("disk gone"), 2, "neaptide: disk gone\n"),
        (KeyboardInterrupt(), 130, "neaptide: interrupted\n"),
    ],
)
def test_errors_of_users_end_in_one_line(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(sources, "model_trace", fail)
    outcome = run("profile", "resnet50")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", line)


def test_an_error_of_neaptide_itself_keeps_its_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(sources, "model_trace", fail)
    with pytest.raises(TypeError, match="a bug"):
        run("profile", "resnet50")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "kept.trace"
    path.write_bytes(encode(training_trace()))
    program = (
        "import os, sys; from neaptide.cli import main; reader, writer = os.pipe(); os.close(reader);"
        "os.dup2(writer, 1); sys.exit(main(['profile', sys.argv[1]]))"
    )
    ended = python("-c", program, str(path))
    assert (ended.returncode, ended.stderr) == (141, "")


def test_the_package_is_the_command(tmp_path: Path) -> None:
    ended = python("-m", "neaptide", "--version", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, f"{neaptide.__version__}\n")
    assert python("-m", "neaptide", "profle", cwd=tmp_path).returncode == 2
