"""A benchmark's figures and their goals."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from neaptide.reporting.terminal.bench import Figure, figures_json, figures_table


@pytest.mark.parametrize(
    ("goal", "met"),
    [("<= 15", True), ("<15", False), (">= 15", True), (">15", False), ("== 15", True), ("<= 1.5e1", True), ("", None)],
)
def test_a_goal_compares_the_value_with_its_bound(goal: str, met: bool | None) -> None:
    assert Figure("seconds", 15.0, "s", goal).met is met


@pytest.mark.parametrize("goal", ["about 15", "15", "<= 15 s", "<="])
def test_a_goal_that_cannot_be_read_is_refused(goal: str) -> None:
    with pytest.raises(ValueError, match="is not a goal"):
        Figure("seconds", 15.0, "s", goal)


def test_a_value_that_is_not_a_number_meets_no_goal() -> None:
    assert Figure("seconds", float("nan"), "s", "<= 15").met is False


def test_the_table_shows_each_figure_with_its_goal() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(figures_table("capture", [Figure("rate", 123456.7, "ops/s"), Figure("time", 0.0625, "s", "< 0.05")]))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert rows == [
        ["bench", "capture"],
        ["figure", "value", "unit", "goal", "met"],
        ["rate", "123,457", "ops/s"],
        ["time", "0.0625", "s", "<", "0.05", "NO"],
    ]


def test_the_json_has_the_figures_and_the_versions() -> None:
    text = figures_json("capture", [Figure("time", 0.5, "s", "< 1"), Figure("gap", float("inf"), "s")])
    assert "\n" not in text
    report = json.loads(text)
    assert report["name"] == "capture"
    assert report["figures"] == [
        {"name": "time", "value": 0.5, "unit": "s", "goal": "< 1", "met": True},
        {"name": "gap", "value": None, "unit": "s", "goal": "", "met": None},
    ]
    assert set(report["versions"]) == {"neaptide", "python", "torch"}
    assert report["cpus"] >= 1
