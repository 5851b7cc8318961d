"""`neaptide profile` of models and of saved traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import training_trace
from neaptide import models
from neaptide.capture.files import load_trace, save_trace


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.trace"
    save_trace(training_trace(), path)
    return path


def test_a_model_is_estimated_for_the_default_device(run: Any) -> None:
    outcome = run("profile", "alexnet", "--scale", "tiny", "--batch", "3")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.startswith("alexnet-tiny, batch 3, training, estimated for V100-16GB\n")
    assert {"persistent", "ephemeral", "peak", "step", "light", "ops", "forward", "backward"} <= set(
        outcome.out.split()
    )


def test_options_may_stand_before_a_model(run: Any) -> None:
    out = run("profile", "--device", "A100-40GB", "--scale", "tiny", "--inference", "alexnet").out
    batch = models.recipe("alexnet", "tiny").batch
    assert out.startswith(f"alexnet-tiny, batch {batch}, inference, estimated for A100-40GB\n")


def test_a_model_can_be_measured() -> None:
    # In a process of its own: the software GPU must be there before the first backward pass.
    words = ["profile", "rnnlm-small", "--scale", "tiny", "--batch", "2", "--measure"]
    out = subprocess.run([sys.executable, "-m", "neaptide.cli", *words], capture_output=True, text=True).stdout
    assert out.startswith("rnnlm-small-tiny, batch 2, training, measured on soft\n")


def test_a_device_can_be_described(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nlike = "V100"\nmemory = "1MiB"\n')
    out = run("profile", "alexnet", "--scale", "tiny", "--device", path).out
    assert "estimated for mine\n" in out
    assert "mine has 1.00 MiB" in out


def test_a_saved_trace_is_shown_as_it_was(run: Any, kept: Path) -> None:
    assert run("profile", kept).out.startswith("tiny, batch 4, training, estimated for V100-16GB\n")


def test_trace_and_figure_are_written(run: Any, kept: Path, tmp_path: Path) -> None:
    again, figure = tmp_path / "again.trace", tmp_path / "tide.svg"
    outcome = run("profile", kept, "-o", again, "--figure", figure)
    assert outcome.out.endswith(f"\ntrace written to {again}\nfigure written to {figure}\n")
    assert again.read_bytes() == kept.read_bytes()
    assert figure.read_text().startswith("<?xml")
    assert run("profile", kept, "-o", again).code == 0  # a trace may be replaced
    assert load_trace(again).name == "tiny"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("", "the models are alexnet, "),
        ("resnet5O", "no model is called 'resnet5O'; did you mean resnet50"),
        ("resnet50 extra", "resnet50 is a model and takes no arguments, but 'extra' follows it"),
        ("resnet50 --batch 0", "batch must be at least 1, not 0"),
        ("resnet50 --batch -3", "batch must be at least 1, not -3"),
        ("resnet50 --device V1000", "no device is called 'V1000'; did you mean V100-16GB"),
        ("resnet50 --device A100", "could be A100-40GB or A100-80GB"),
        ("resnet50 --device none.toml", "none.toml: No such file or directory"),
        ("resnet50 --device bad.toml", "bad.toml: bad device description"),
        ("resnet50 --measure --device V100", "choose one"),
        ("resnet50 -o no/dir/x.trace", "cannot write no/dir/x.trace: there is no directory no/dir"),
        ("resnet50 -o .", ". is a directory"),
        ("resnet50 -o bad.toml", "bad.toml exists and is not a trace"),
        ("resnet50 --figure tide.gif", "must end with .png, .svg or .pdf"),
        ("nope.py", "there is no file nope.py"),
        ("kept.trace --batch 3 --measure", "--batch and --measure can only be given for a model"),
        ("kept.trace extra", "kept.trace is a trace and takes no arguments"),
        ("cut.trace", "cut.trace: damaged or truncated trace file"),
        ("bad.toml", "neither a trace file nor a Python script"),
    ],
)
def test_a_wrong_option_of_profile_is_one_line(
    run: Any, kept: Path, monkeypatch: pytest.MonkeyPatch, words: str, part: str
) -> None:
    monkeypatch.chdir(kept.parent)
    Path("bad.toml").write_text("memory = 3")
    Path("cut.trace").write_bytes(kept.read_bytes()[:100])
    outcome = run("profile", *words.split())
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("neaptide: ")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


def test_too_little_memory_to_measure_is_reported(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1e15 bytes")

    monkeypatch.setattr("neaptide.capture.measured.measure", too_much)
    outcome = run("profile", "alexnet", "--scale", "tiny", "--batch", "2", "--measure")
    assert outcome.err == "neaptide: this machine has too little memory to run alexnet-tiny at batch 2\n"
