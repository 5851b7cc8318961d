"""`neaptide budget`: what all jobs together may hold, shown or changed while they run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def budget(
    amount: Annotated[
        str | None, Parameter(help="The new budget, such as 6GiB. Default: show the present one.")
    ] = None,
    /,
) -> int:
    """Show or change the budget of the running daemon."""
    from neaptide.core.units import format_bytes, parse_bytes
    from neaptide.live.protocol.asking import ask
    from neaptide.live.protocol.messages import Problem, SetBudget, Status, StatusRequest
    from neaptide.live.protocol.paths import runtime_paths

    paths = runtime_paths()
    if amount is not None:
        budget_bytes = parse_bytes(amount)
        if budget_bytes < 1:
            raise ValueError(f"the budget must be positive, not {amount}")
        answer = ask(paths, SetBudget(budget_bytes))
        if isinstance(answer, Problem):
            raise ValueError(answer.reason)
    answer = ask(paths, StatusRequest())
    assert isinstance(answer, Status)
    print(f"budget {format_bytes(answer.budget_bytes)}, used {format_bytes(answer.used_bytes)}")
    return 0
