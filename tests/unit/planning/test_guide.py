"""The guide's example planner, as a user's file outside the package."""

import json
import re
from pathlib import Path

import pytest

import neaptide
from neaptide.cli import main
from neaptide.plan import CannotFitError, Planner, Trace, apply, find_device, find_planner
from neaptide.reproductions.networks.layers import network_trace
from neaptide.reproductions.networks.superneurons_networks import alexnet

GUIDE = Path(__file__).parents[3] / "docs" / "writing-a-planner.md"
DEVICE = find_device("K40")


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guide") / "longest_idle.py"
    path.write_text(examples()[0], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plan(file: Path) -> Planner:
    return find_planner(str(file))


@pytest.fixture(scope="module")
def trace() -> Trace:
    everything = network_trace(alexnet(32), DEVICE)
    return apply(everything, find_planner("liveness")(everything, everything.peak_bytes, DEVICE), DEVICE)


def test_the_guides_example_is_short_and_imports_only_the_public_module(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    modules = {line.split()[1] for line in lines if line.startswith(("import", "from"))}
    assert modules == {"numpy", "neaptide.plan"}


def test_the_guides_example_keeps_the_budget(plan: Planner, trace: Trace) -> None:
    budget_bytes = trace.peak_bytes - trace.ephemeral_bytes // 10
    planned = apply(trace, plan(trace, budget_bytes, DEVICE), DEVICE)
    planned.check()
    assert planned.peak_bytes <= budget_bytes < trace.peak_bytes


def test_the_guides_example_says_how_low_it_can_go(plan: Planner, trace: Trace) -> None:
    with pytest.raises(
        CannotFitError, match=r"longest-idle cannot meet 1\.00 MiB: it reaches .*, and no plan can go below"
    ):
        plan(trace, 1 << 20, DEVICE)


def test_the_command_runs_the_guides_example_beside_a_planner_of_the_registry(
    file: Path, trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "alexnet.trace"
    neaptide.save_trace(trace, saved)
    words = ["plan", str(saved), "--device", "K40", "--budget", "95%", "--planner", "vdnn", "--planner", str(file)]
    assert main([*words, "--json"]) == 0
    values = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(each["planner"], each["fits"]) for each in values["planners"]] == [("vdnn", True), ("longest-idle", True)]
    assert values["planners"][1]["peak_bytes"] <= values["budget_bytes"]


def test_the_guides_program_tries_the_example_on_a_saved_trace(
    file: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    neaptide.save_trace(trace, file.parent / "alexnet.trace")
    monkeypatch.chdir(file.parent)
    exec(examples()[-1], {})
    assert "Summary(planner='longest-idle', peak_bytes=" in capsys.readouterr().out
