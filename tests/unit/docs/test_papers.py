"""docs/papers.md has every policy, planner, reproduction and number of ours."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from neaptide.cli.commands.reproduce import Paper
from neaptide.planning.planners import PLANNERS
from neaptide.policies import POLICIES

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "papers.md"


@pytest.mark.parametrize("name", [*POLICIES, *PLANNERS, *get_args(Paper)])
def test_the_page_names_every_policy_planner_and_reproduction_in_its_first_table(name: str) -> None:
    table = PAGE.read_text().partition("## Where each paper is")[2].partition("\n## ")[0]
    assert f"`{name}`" in table


SOURCES = REPOSITORY / "src" / "neaptide"
DECIDING = ("policies", "planning/planners", "planning/search", "planning/checkmate")
NO_CHOICES = {"NEVER", "_LANE", "lead", "others_ns"}  # in parts/: a time, an index, and arguments of the policies


def numbers_of(source: Path) -> Iterator[str]:
    """The names of a file's constants and defaults that are numbers."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        numbers = [each for each in ast.walk(value) if isinstance(each, ast.Constant)]
        plain = isinstance(value, ast.Constant | ast.UnaryOp | ast.BinOp)
        if plain and numbers and all(type(each.value) in (int, float) for each in numbers):
            yield name


@pytest.mark.parametrize(
    "path", [path for room in DECIDING for path in sorted((SOURCES / room).rglob("*.py"))], ids=lambda path: path.name
)
def test_the_page_says_why_every_number_that_decides_is_what_it_is(path: Path) -> None:
    file = path.relative_to(SOURCES)
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and f"`{file}`" in line]
    found = {name for name in numbers_of(path) if file.parts[1] != "parts" or name not in NO_CHOICES}
    assert {name for name in found if not any(f"`{name}`" in row for row in rows)} == set()
