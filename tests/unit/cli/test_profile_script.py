"""`neaptide profile` of unchanged scripts."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import torch

from neaptide.capture.files import load_trace
from neaptide.core.traces.trace import Phase


def test_a_script_s_own_output_comes_before_its_profile(run: Any, script: Any, tmp_path: Path) -> None:
    kept = tmp_path / "plain.trace"
    outcome = run("profile", "-o", kept, script("plain"))
    steps, _, report = outcome.out.partition("\n\n")
    assert steps.splitlines() == [f"step {i}" for i in range(steps.count("\n") + 1)]
    assert report.startswith("plain, training, measured on cpu\n")
    assert "ended before" not in report
    assert (outcome.code, outcome.err) == (0, "")
    assert {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER} == set(load_trace(kept).ops.phase)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_script_for_cuda_finds_the_device_that_it_has_under_run(script: Any) -> None:
    # In a process of its own: torch has no backward thread for a device that is made after its first backward pass.
    code = "from neaptide.cli import main; code = main(); import torch; print(torch.cuda.is_available(), code)"
    words = [sys.executable, "-c", code, "profile", str(script("for_cuda"))]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "neaptide: there is no GPU here, so cuda means the software GPU (soft)\n" in ended.stderr
    assert "for_cuda, training, measured on soft\n" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "False 0"  # when the script has ended


@pytest.mark.parametrize(("name", "forwards"), [("accumulating", 4), ("gan", 4)])
def test_an_iteration_ends_with_its_last_optimizers_step(
    run: Any, script: Any, tmp_path: Path, name: str, forwards: int
) -> None:
    kept = tmp_path / "kept.trace"
    assert run("profile", "-o", kept, script(name)).code == 0
    assert len(load_trace(kept).ops.name.which("aten::addmm")) == forwards


def test_serving_is_profiled_too_and_exit_code_0_is_no_failure(run: Any, script: Any) -> None:
    outcome = run("profile", script("serving"))
    assert (outcome.code, outcome.err) == (0, "")
    assert "serving, inference, measured on cpu\n" in outcome.out


def test_everything_after_a_script_is_passed_to_it(run: Any, script: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept.trace"
    path = script("arguments")
    outcome = run("profile", "-o", kept, path, "--batch", "5", "-o", "mine", "--", "a", "--help")
    assert outcome.out.startswith("Namespace(batch=5, o='mine', data=['a', '--help'])\n")
    assert outcome.code == 0
    assert kept.exists()


def test_options_of_models_are_refused_for_a_script(run: Any, script: Any) -> None:
    path = script("plain")
    outcome = run("profile", "--batch", "3", path)
    assert outcome.code == 2
    assert outcome.err.startswith("neaptide: --batch can only be given for a model; ")


def test_a_script_that_raises_shows_its_own_traceback_and_the_profile_so_far(run: Any, script: Any) -> None:
    path = script("raising")
    outcome = run("profile", path, "5")
    assert outcome.code == 1
    lines = outcome.err.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{path}", line 11, in <module>']
    assert lines[-2:] == [
        "KeyError: 'the data ended'",
        f"neaptide: {path} ended with KeyError; this is the profile so far",
    ]
    assert outcome.err.count("  File ") == 2
    assert "raising, training, measured on cpu\n" in outcome.out
    assert "The script ended before a profile had all it wants" in outcome.out


def test_a_script_that_raises_at_once_has_no_profile(run: Any, script: Any) -> None:
    path = script("raising")
    outcome = run("profile", path, "0")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.endswith(f"neaptide: {path} ended with KeyError\n")


@pytest.mark.parametrize("name", ["raising", "leaving"])
def test_a_traceback_that_cannot_be_written_does_not_change_the_exit_code(
    run: Any, script: Any, full: io.StringIO, name: str
) -> None:
    with redirect_stderr(full):
        assert run("profile", script(name), "0").code == 1


def test_a_traceback_has_no_frame_of_neaptide(run: Any, script: Any) -> None:
    outcome = run("profile", script("wrong_shape"))
    assert "mat1 and mat2 shapes cannot be multiplied" in outcome.err
    assert "runpy" not in outcome.err
    assert "neaptide/c" not in outcome.err


def test_a_script_with_a_syntax_error_shows_its_line(run: Any, script: Any) -> None:
    path = script("misspelt")
    outcome = run("profile", path)
    assert outcome.code == 1
    assert outcome.err.startswith(f'  File "{path}", line 1\n    x = (\n')
    assert "SyntaxError: '(' was never closed\n" in outcome.err


def test_a_script_that_exits_with_a_message_shows_it(run: Any, script: Any) -> None:
    path = script("leaving")
    outcome = run("profile", path)
    assert (outcome.code, outcome.err) == (1, f"no data\nneaptide: {path} ended with exit code no data\n")


def test_a_script_without_a_model_says_so(run: Any, script: Any) -> None:
    path = script("no_torch")
    outcome = run("profile", path)
    assert outcome.code == 2
    assert outcome.out == "hello\n"
    assert outcome.err.startswith(f"neaptide: no whole iteration was seen in {path}: ")
    assert outcome.err.count("\n") == 1


def test_an_interrupted_script_ends_in_one_line(run: Any, script: Any) -> None:
    outcome = run("profile", script("interrupted"))
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "neaptide: interrupted\n")


def test_profile_works_as_a_process_of_its_own(script: Any) -> None:
    path = script("plain")
    words = [sys.executable, "-m", "neaptide.cli", "profile", path.name]
    ended = subprocess.run(words, cwd=path.parent, capture_output=True, text=True, check=False)
    slow = [line for line in ended.stderr.splitlines() if not line.endswith(" so far")]  # on a slow machine
    assert (ended.returncode, slow) == (0, [])
    assert ended.stdout.startswith("step 0\nstep 1\n")
