"""A policy of one's own: all jobs at once, as processes share a GPU for which nobody plans.

With `--wait 0s` a job that finds no memory fails at once, as it does there:

neaptide run examples/jobs.toml --policy examples/all_at_once.py --wait 0s
"""

from collections.abc import Sequence

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View


class AllAtOnce(Policy):
    name = "spatial-unplanned"

    def decide(self, view: View) -> Sequence[Action]:
        admitted = [Admit(job.name) for job in view.queued]
        return [*admitted, *(Start(job.name) for job in view.queued), *(Start(job.name) for job in view.startable)]
