"""What a target names, and where a command's own options end."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import training_trace
from neaptide.cli.app import app
from neaptide.cli.target import end_options_at_script, target_kind
from neaptide.core.traces.trace_format import encode


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    Path("tool").write_text("#!/usr/bin/env python3\n")
    Path("kept.trace").write_bytes(encode(training_trace()))
    Path("resnet50").write_bytes(encode(training_trace()))
    Path("notes.txt").write_text("hello")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("resnet50", "model"),
        ("./resnet50", "trace"),
        ("kept.trace", "trace"),
        ("train.py", "script"),
        ("./train.py", "script"),
        ("./tool", "script"),
        ("no-such-model", "model"),
    ],
)
def test_a_target_is_a_model_a_script_or_a_trace(target: str, kind: str) -> None:
    assert target_kind(target) == kind


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nope.py", "there is no file nope.py$"),
        ("no/such", "there is no file no/such$"),
        ("gpt-3.5", "there is no file gpt-3.5, and no model of that name"),
        ("notes.txt", "neither a trace file nor a Python script"),
        ("./", "is a directory"),
    ],
)
def test_a_target_that_is_nothing_is_refused(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_kind(target)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("train.py --lr 0.1", "train.py -- --lr 0.1"),
        ("-o x.trace train.py -o y", "-o x.trace train.py -- -o y"),
        ("--output=x.trace train.py --help", "--output=x.trace train.py -- --help"),
        ("--figure x.png --inference train.py", "--figure x.png --inference train.py --"),
        ("train.py -- --lr", "train.py -- -- --lr"),
        ("-- train.py --lr", "-- train.py --lr"),
        ("-o train.py resnet50 --batch 3", "-o train.py resnet50 --batch 3"),
        ("resnet50 --batch 3", "resnet50 --batch 3"),
        ("nope.py --lr", "nope.py --lr"),
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_everything_after_a_script_is_passed_to_it(given: str, read: str) -> None:
    known = app["profile"].assemble_argument_collection()
    assert end_options_at_script(given.split(), known) == read.split()
