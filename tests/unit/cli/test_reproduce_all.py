"""`neaptide reproduce all`: every paper in one table and on one page; the experiments are replaced by short ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, get_args

import pytest

from neaptide.cli.commands.reproduce import Paper
from neaptide.reproductions import papers
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Goal, Reproduction
from reproductions import reproduced

NAMES = get_args(Paper)
CLAIM = Claim(says="it is fast", published="2x", source=Source.STATED, ours="3x", agrees=True)
Experiment = Callable[[Laboratory], Reproduction]


def experiment(name: str) -> Experiment:
    def reproduce(laboratory: Laboratory) -> Reproduction:
        return Reproduction(
            paper=f"paper {name}",
            device=laboratory.device.name,
            setting=(),
            tables=(),
            claims=(CLAIM,),
            goals=(Goal("it ends", "yes", True), Goal("it wins", "no", False)),
            unknown=(),
            differs=(),
        )

    return reproduce


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.setattr(import_module(f"neaptide.reproductions.papers.{name}"), "reproduce", experiment(name))


def test_the_command_knows_every_paper_of_the_room() -> None:
    assert sorted(NAMES) == sorted(module.name for module in iter_modules(papers.__path__))


def test_every_papers_claims_are_printed_and_written_to_the_page(run: Any, tmp_path: Path) -> None:
    text, values = reproduced(run, "all")
    page = (tmp_path / "reproductions.html").read_text()
    assert [each["paper"] for each in values["papers"]] == [f"paper {name}" for name in NAMES]
    assert all(f"paper {name} on " in text and f"paper {name} on " in page for name in NAMES)
    assert text.count("FAILS it wins: no") == len(NAMES)
    assert f"{len(NAMES)} of {len(NAMES)} claims hold, {len(NAMES)} of them in the paper's own setting" in " ".join(
        text.split()
    )
    assert "page written to reproductions.html" in text


def test_a_paper_that_cannot_be_run_is_named_and_the_others_are_printed(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_: Laboratory) -> Reproduction:
        raise ValueError("nothing fits this device")

    monkeypatch.setattr(import_module("neaptide.reproductions.papers.salus"), "reproduce", refuse)
    text, values = reproduced(run, "all", "--page", tmp_path / "page.html")
    assert values["failed"] == {"salus": "nothing fits this device"}
    assert len(values["papers"]) == len(NAMES) - 1
    assert "could not be run salus: nothing fits this device" in text
    assert "salus could not be run: nothing fits this device" in (tmp_path / "page.html").read_text()


def test_a_page_that_cannot_be_written_is_refused_before_the_work_begins(run: Any, tmp_path: Path) -> None:
    outcome = run("reproduce", "all", "--page", tmp_path / "none" / "page.html")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
