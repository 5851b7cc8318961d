import json
import re
from pathlib import Path

import pytest

from neaptide.capture.files import save_trace
from neaptide.cli import main
from neaptide.core.device import find_device
from neaptide.core.traces.trace_format import decode
from neaptide.planning.apply import apply
from neaptide.planning.planners import liveness
from neaptide.reproductions.networks.layers import network_trace
from neaptide.reproductions.networks.superneurons_networks import alexnet


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "alexnet.trace"
    device = find_device("K40")
    everything = network_trace(alexnet(32), device)
    save_trace(apply(everything, liveness.plan(everything, everything.peak_bytes, device), device), path)
    return path


def test_a_plan_of_a_trace_is_a_table_and_a_planned_trace(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "planned.trace"
    words = ["plan", str(saved), "--device", "K40", "--budget", "70%", "--planner", "superneurons", "-o", str(output)]
    assert main([*words, "--json"]) == 0
    shown = capsys.readouterr().out
    before, planned = decode(saved.read_bytes()), decode(output.read_bytes())
    values = json.loads(shown.splitlines()[-1])
    assert "superneurons" in shown
    assert planned.peak_bytes <= values["budget_bytes"] == round(0.7 * before.peak_bytes)
    (only,) = values["planners"]
    assert only["fits"]
    assert only["peak_bytes"] == planned.peak_bytes


def test_a_budget_that_no_planner_meets_is_an_exit_code_and_says_how_low_each_gets(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(saved), "--device", "K40", "--budget", "1MiB", "--planner", "superneurons"]) == 1
    assert "superneurons cannot meet the budget: it reaches" in capsys.readouterr().out


def test_the_planners_that_cannot_meet_a_budget_are_one_line(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", str(saved), "--device", "K40", "--budget", "1MiB", "--planner", "superneurons"]
    assert main([*words, "--planner", "liveness", "--planner", "vdnn"]) == 1
    said = capsys.readouterr().out.splitlines()
    (line,) = [each for each in said if "the budget" in each]
    assert line.startswith("none of the 3 planners can meet the budget; ")
    assert "comes nearest, with" in line


def test_beside_a_planner_that_meets_the_budget_one_that_cannot_is_one_line(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", str(saved), "--device", "K40", "--budget", "70%", "--planner", "superneurons"]
    assert main([*words, "--planner", "liveness"]) == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "cannot meet the budget" in each]
    assert line.startswith("liveness cannot meet the budget: it reaches ")


def test_beside_a_planner_that_meets_the_budget_several_that_cannot_are_one_line_with_their_names(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", str(saved), "--device", "K40", "--budget", "70%", "--planner", "superneurons"]
    assert main([*words, "--planner", "liveness", "--planner", "gist"]) == 0
    text = " ".join(capsys.readouterr().out.split())  # a narrow terminal breaks the line
    assert text.count("cannot meet the budget") == 1
    assert re.search("2 planners cannot meet the budget; liveness comes nearest, with .* MiB: liveness, gist", text)


def test_the_frontier_is_drawn(saved: Path, tmp_path: Path) -> None:
    figure = tmp_path / "frontier.svg"
    words = ["plan", str(saved), "--device", "K40", "--budget", "80%", "--planner", "superneurons"]
    assert main([*words, "--figure", str(figure)]) == 0
    assert "superneurons" in figure.read_text(encoding="utf-8") or figure.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--planner", "bestt"], "no planner is called 'bestt'; did you mean best"),
        (["--budget", "150%"], "a budget is more than 0% and at most 100% of the peak, not 150%"),
        (["--budget", "x%"], "a budget is bytes such as 6GiB, or a percentage of the peak, not 'x%'"),
        (["--batch", "3"], "--batch and --scale can only be given for a model"),
        (["--figure", "frontier.txt"], "frontier.txt"),
    ],
)
def test_a_wrong_option_of_plan_is_one_line(
    saved: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(saved), *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
