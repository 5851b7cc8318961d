"""`neaptide run`, `top` and `report`: an error is one line, and leaves no file behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neaptide.cli import app as root
from neaptide.cli.target import end_options_at_program


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run"], "name a TOML file of jobs, or write a command: neaptide run -- python train.py"),
        (["run", "none.toml"], "none.toml: No such file or directory"),
        (["run", "train.py"], "train.py is a script; write the whole command: neaptide run -- python train.py"),
        (
            ["run", "jobs.toml", "--priority", "2"],
            "--priority can only be given for a command; write it into jobs.toml",
        ),
        (["run", "jobs.toml", "--policy", "zcio"], "no policy is called 'zcio'; did you mean zico?"),
        (["run", "jobs.toml", "--budget", "much"], "'much' is not an amount of memory; write it like 2GiB or 500MB"),
        (["top"], "no daemon runs in"),
        (["report"], "name the folders of one or more runs; neaptide run prints the folder that it writes"),
        (["report", "."], ". is not the folder of a run; neaptide run prints the folder that it writes"),
    ],
)
def test_a_wrong_command_line_of_run_top_or_report_is_one_line(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEAPTIDE_RUNTIME", str(tmp_path / "runtime"))
    Path("jobs.toml").write_text("[[job]]\nname = 'a'\ncommand = 'python a.py'\n")
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"neaptide: {line}")
    assert outcome.err.count("\n") == 1
    assert not Path("neaptide-runs").exists()


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        ("--name a python train.py --name b", "--name a -- python train.py --name b"),
        ("--name a -- python train.py", "--name a -- python train.py"),
        ("--private jobs.toml -o kept", "--private jobs.toml -o kept"),
        ("--private", "--private"),
    ],
)
def test_everything_after_a_program_is_passed_to_it(words: str, understood: str) -> None:
    known = root.app["run"].assemble_argument_collection()
    assert end_options_at_program(words.split(), known) == understood.split()
