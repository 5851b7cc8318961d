"""A policy in a file: it starts all jobs at once, as processes share a GPU when nothing plans for them.

With `--wait 0s` a job that finds no free memory fails at once, as on such a GPU:

neaptide run examples/jobs.toml --policy examples/all_at_once.py --wait 0s
"""

from collections.abc import Sequence

from neaptide.policy import Action, Admit, Policy, Start, View


class AllAtOnce(Policy):
    name = "spatial-unplanned"

    def decide(self, view: View) -> Sequence[Action]:
        admitted = [Admit(job.name) for job in view.queued]
        return [*admitted, *(Start(job.name) for job in view.queued), *(Start(job.name) for job in view.startable)]
