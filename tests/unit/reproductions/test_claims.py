"""When a claim of a paper holds, does not hold, or cannot be judged."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console

from neaptide.reproductions.claims import Claim, Mark, Source, Verdict, count_verdicts
from neaptide.reproductions.page import claims_page
from neaptide.reproductions.printing import claims_table, print_reproduction, print_summary
from neaptide.reproductions.result import Goal, Reproduction

CLAIM = Claim(says="a is faster than b", published="2x", source=Source.STATED, ours="2.1x", agrees=True)


@pytest.mark.parametrize("source", [Source.STATED, Source.PUBLIC])
@pytest.mark.parametrize("other_setting", ["", "virtual time"])
def test_an_unmarked_claim_that_agrees_holds(source: Source, other_setting: str) -> None:
    claim = replace(CLAIM, source=source, other_setting=other_setting)
    assert (claim.verdict, claim.same_setting) == (Verdict.HOLDS, not other_setting)


def test_a_recalled_fitted_or_chosen_figure_never_holds() -> None:
    for source, marks in product(Source, [(), (Mark.FITTED,), (Mark.CHOSEN,), tuple(Mark)]):
        claim = replace(CLAIM, source=source, marked=marks)
        if source is Source.RECALLED or marks:
            assert claim.verdict is Verdict.CANNOT
            assert claim.marks


@pytest.mark.parametrize("marks", [(), (Mark.CHOSEN,)])
@pytest.mark.parametrize("source", list(Source))
def test_a_figure_that_disagrees_does_not_hold_whatever_its_source(source: Source, marks: tuple[Mark, ...]) -> None:
    assert replace(CLAIM, source=source, marked=marks, agrees=False).verdict is Verdict.DOES_NOT


@pytest.mark.parametrize("agrees", [True, False, None])
def test_a_fitted_figure_says_nothing(agrees: bool | None) -> None:
    assert replace(CLAIM, agrees=agrees, marked=(Mark.FITTED,)).verdict is Verdict.CANNOT


def test_a_figure_with_nothing_to_compare_cannot_be_judged() -> None:
    assert replace(CLAIM, agrees=None).verdict is Verdict.CANNOT


def test_every_claim_is_counted_under_one_verdict() -> None:
    claims = [CLAIM, CLAIM, replace(CLAIM, agrees=False), replace(CLAIM, agrees=None)]
    assert count_verdicts(claims) == {Verdict.HOLDS: 2, Verdict.DOES_NOT: 1, Verdict.CANNOT: 1}


def test_the_page_shows_every_claim_goal_and_failure_as_text_and_not_as_markup() -> None:
    claim = replace(CLAIM, says="a < b", other_setting="no <i>GPU</i>", marked=(Mark.CHOSEN,))
    found = Reproduction(
        paper="Paper & Co",
        device="V100",
        setting=("two jobs",),
        tables=(),
        claims=(claim,),
        goals=(Goal("it ends", "it does not", False),),
        unknown=("the batch",),
        differs=("we guess",),
    )
    page = claims_page([found], {"other": "does not fit <device>"})
    for text in (
        *("a &lt; b", "no &lt;i&gt;GPU&lt;/i&gt;", "Paper &amp; Co on V100", "2x", "stated", "2.1x"),
        *("cannot be judged", "chosen after trying", "FAILS: it ends: it does not", "the batch", "we guess"),
        *("other could not be run: does not fit &lt;device&gt;", "0 of 1 claims hold"),
    ):
        assert text in page
    assert "<i>GPU" not in page


def test_papers_without_goals_of_ours_say_so_and_the_summary_leads_to_each_paper() -> None:
    found = Reproduction(
        paper="Paper", device="V100", setting=(), tables=(), claims=(CLAIM,), goals=(), unknown=(), differs=()
    )
    page = claims_page([found], {})
    assert "none" in page
    assert "Our own goals" not in page
    assert '<a href="#paper-1">Paper</a>' in page
    assert '<section id="paper-1">' in page
    console = Console(record=True, width=100)
    print_reproduction(found, console)
    print_summary([found], {}, console)
    text = console.export_text()
    assert "Our own goals\nNone." in text
    assert "none" in text


def test_claims_have_the_most_room_in_the_terminal() -> None:
    long = replace(
        CLAIM, says="a claim of many words " * 5, published="some words, too", ours="and some of ours as well"
    )
    console = Console(record=True, width=100)
    console.print(claims_table([long]))
    first = console.export_text().splitlines()[1]
    assert len(first.partition("some words")[0].rstrip()) > 20
