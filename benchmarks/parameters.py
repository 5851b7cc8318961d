"""Our policy's own numbers, on networks on which none of them was chosen: the work of pairs and of sets of three.

For each number other values than the default are tried, one at a time, on a simulated V100. Work is the device's time
alone of the iterations that ended, over the time that passed, so that taking turns gives 1. No network is one of a
reproduction's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement

from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import Job
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.models.zoo import recipe
from neaptide.policies.neaptide import Neaptide
from neaptide.policies.temporal import Temporal
from neaptide.reporting.terminal.bench import Figure
from neaptide.reproductions.laboratory import Laboratory
from neaptide.simulation import Submission, simulate

NETWORKS = ("densenet121", "mobilenet-v2", "unet", "gpt2", "transformer")
TRIED: dict[str, tuple[float, ...]] = {
    "early": (0.0, 0.25, 0.75),
    "width": (1.5, 2.5),
    "gain": (0.1, 0.4),
    "worth_sharing": (0.8, 1.1),
    "try_again": (16, 256),
    "in_flight": (16, 256),
    "behind": (0, 8),
    "patience": (5.0, 20.0),
}
ROUNDS = 30  # a run is as long as this many iterations of each job in turns
SAME = 0.002  # runs end inside iterations


def figures() -> Iterator[Figure]:
    """The defaults against turns, then each other value against the defaults."""
    trials = Trials()
    for jobs in (2, 3):
        sets = list(combinations_with_replacement(NETWORKS, jobs))
        title = {2: "pairs", 3: "threes"}[jobs]
        base = [trials.work(names, Neaptide()) for names in sets]
        turns = [trials.work(names, Temporal()) for names in sets]
        gains = [mine / other for mine, other in zip(base, turns, strict=True)]
        yield from _spread(f"{title}, defaults against turns", gains)
        for number, values in TRIED.items():
            for value in values:
                others = [trials.work(names, Neaptide(**{number: value})) for names in sets]
                against = [other / mine for other, mine in zip(others, base, strict=True)]
                yield from _spread(f"{title}, {number} {value:g} against {getattr(Neaptide, number):g}", against)


def _spread(title: str, ratios: Sequence[float]) -> Iterator[Figure]:
    yield Figure(f"{title}: mean", sum(ratios) / len(ratios), "x")
    yield Figure(f"{title}: least", min(ratios), "x")
    yield Figure(f"{title}: most", max(ratios), "x")
    yield Figure(f"{title}: sets that change", sum(abs(each - 1) > SAME for each in ratios), f"of {len(ratios)}")


class Trials:
    """Runs sets of jobs under a policy, in a memory half-way between what turns need and the sum of the peaks."""

    def __init__(self) -> None:
        self._laboratory = Laboratory(find_device("V100"))
        self.work = cache(self._work)

    def _work(self, names: tuple[str, ...], policy: Policy) -> float:
        laboratory, batches = self._laboratory, [recipe(name).batch for name in names]
        profiles = [laboratory.profile(*each) for each in zip(names, batches, strict=True)]
        at_rest = sum(profile.persistent_bytes for profile in profiles)
        tides = [profile.ephemeral_bytes for profile in profiles]
        budget_bytes = at_rest + (max(tides) + sum(tides)) // 2
        submissions = [
            Submission(Job(name=str(number), trace=laboratory.trace(name, batch)))
            for number, (name, batch) in enumerate(zip(names, batches, strict=True))
        ]
        lasts_ns = ROUNDS * sum(profile.solo_ns for profile in profiles)
        outcome = simulate(submissions, laboratory.device, budget_bytes, policy, until_ns=lasts_ns)
        ended = [entry for entry in outcome.entries if isinstance(entry, IterationEnded)]
        return sum(profiles[int(entry.job)].solo_ns * entry.iterations for entry in ended) / outcome.end_ns
