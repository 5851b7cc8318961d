"""Planners found by name or by the path of a user's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neaptide.capture.files import save_trace
from neaptide.cli import main
from neaptide.plan import PLANNERS, find_planner
from steps import chain_step, device

HEAD = "from neaptide.plan import Plan\n"


def written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_planner_of_the_registry_is_found_by_name_and_writes_that_name_into_its_plans() -> None:
    trace = chain_step([10] * 4)
    for name in PLANNERS:
        assert find_planner(name)(trace, trace.peak_bytes, device()).planner == name


def test_a_planners_file_is_loaded_when_the_planner_is_asked_for() -> None:
    code = (
        "import sys, neaptide.plan as public; loaded = 'highspy' in sys.modules; public.find_planner('checkmate'); "
        "assert (loaded, 'highspy' in sys.modules, 'torch' in sys.modules) == (False, True, False)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_planner_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ValueError, match="no planner is called 'superneuron'; did you mean superneurons"):
        find_planner("superneuron")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", r"defines a function plan\(trace, budget_bytes, device\), this one defines no function"),
        ("def plan_a(t, b, d): ...\ndef plan_b(t, b, d): ...", "this one defines plan_a, plan_b"),
        ("plan = 3", "this one defines no function"),
        (
            "def plan(trace, budget): ...",
            r"called as plan\(trace, budget_bytes, device\), this one is plan\(trace, ",
        ),
        ("def (", r"SyntaxError: .* \(line 1\)"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_holds_no_planner_gets_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=problem) as failure:
        find_planner(path)
    assert str(failure.value).startswith(path)
    assert "\n" not in str(failure.value)


def test_a_missing_planner_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no planner file .*none\.py"):
        find_planner(str(tmp_path / "none.py"))


def test_a_planner_that_returns_no_plan_is_refused(tmp_path: Path) -> None:
    plan = find_planner(written(tmp_path, "def plan(trace, budget_bytes, device): return []"))
    with pytest.raises(ValueError, match=r"mine\.py: plan returned list, not a Plan"):
        plan(chain_step([10] * 4), 10, device())


def test_the_command_refuses_a_plan_above_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "chain.trace"
    save_trace(chain_step([10] * 4), saved)
    path = written(tmp_path, HEAD + "def plan(trace, budget_bytes, device): return Plan(planner='idle')\n")
    assert main(["plan", str(saved), "--budget", "50%", "--planner", path]) == 2
    error = capsys.readouterr().err
    assert f"the plan of {path} holds 42 B, more than the budget of 21 B" in error
