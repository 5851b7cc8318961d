"""docs/papers.md has every policy, every planner and every reproduction, and names files that exist."""

import re
from pathlib import Path
from typing import get_args

import pytest

from neaptide.cli.commands.reproduce import Paper
from neaptide.planning.planners import PLANNERS
from neaptide.policies import POLICIES

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "papers.md"
ROOMS = "core|capture|planning|policies|simulation|devices|live|fitting|reproductions|tests"


@pytest.mark.parametrize("name", [*POLICIES, *PLANNERS, *get_args(Paper)])
def test_the_page_names_every_policy_planner_and_reproduction_in_its_first_table(name: str) -> None:
    table = PAGE.read_text().partition("## Where each paper is")[2].partition("\n## ")[0]
    assert f"`{name}`" in table


def test_the_page_names_files_that_exist() -> None:
    named = set(re.findall(rf"`((?:{ROOMS})/[\w/.]*)`", PAGE.read_text()))
    assert len(named) > 20
    places = (REPOSITORY, REPOSITORY / "src" / "neaptide")
    assert [path for path in sorted(named) if not any((place / path).exists() for place in places)] == []
