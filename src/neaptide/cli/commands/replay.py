"""`neaptide replay`: gives a run's events to its policy again, and shows whether it decides the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

DIFFERS = 1
_SHOWN = 5


def replay(
    folder: Annotated[Path | None, Parameter(help="A folder that neaptide run wrote.")] = None,
    /,
    *,
    policy: Annotated[
        str | None, Parameter(help="Ask this policy, a name or a .py file. Default: the run's own.")
    ] = None,
) -> int:
    """Replay the decisions of a run; 0 when they are the same, 1 when not."""
    if folder is None:
        raise ValueError("name the folder of a run; neaptide run prints the folder that it writes")
    from neaptide.cli import console
    from neaptide.policies.files import find_policy
    from neaptide.reporting.logs.replay import Answer, logged_policy
    from neaptide.reporting.logs.replay import replay as replay_log
    from neaptide.reporting.logs.run_folder import EVENTS, TRACES

    def words(answers: tuple[Answer, ...]) -> str:
        return ", ".join(str(answer.action) for answer in answers) or "nothing"

    log = folder / EVENTS
    if not log.is_file():
        raise ValueError(f"{folder} is not the folder of a run; neaptide run prints the folder that it writes")
    asked = find_policy(policy or logged_policy(log))
    differences = replay_log(log, folder / TRACES, asked)
    out = console.stdout()
    for each in differences[:_SHOWN]:
        out.print(
            f"{each.event.at_ns / 1e9:.3f} s, {each.event}: the log says {words(each.logged)}; "
            f"the policy now says {words(each.replayed)}",
            soft_wrap=True,
            markup=False,
        )
    if differences:
        out.print(f"{asked.name} answers {len(differences)} events otherwise than the log says")
        return DIFFERS
    out.print(f"{asked.name} decides the same again")
    return 0
