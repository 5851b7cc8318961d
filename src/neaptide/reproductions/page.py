"""The claims of all reproduced papers as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from neaptide.reproductions.claims import Verdict, count_verdicts, other_settings, totals
from neaptide.reproductions.result import Reproduction, claim_values


def claims_page(found: Sequence[Reproduction], failed: Mapping[str, str]) -> str:
    """The page: a line per paper, then each paper's claims, our goals and what is unknown."""
    from jinja2 import Environment, StrictUndefined

    template = resources.files("neaptide.reproductions").joinpath("claims.html.jinja").read_text(encoding="utf-8")
    style = resources.files("neaptide.reporting.pages").joinpath("report.css").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        style=style,
        totals=totals([claim for each in found for claim in each.claims]),
        verdicts=[verdict.value for verdict in Verdict],
        papers=[
            {
                "paper": each.paper,
                "device": each.device,
                "setting": each.setting,
                "claims": [claim_values(claim) for claim in each.claims],
                "counts": list(count_verdicts(each.claims).values()),
                "goals": each.goals,
                "other_settings": other_settings(each.claims),
                "unknown": each.unknown,
                "differs": each.differs,
            }
            for each in found
        ],
        failed=failed,
    )
