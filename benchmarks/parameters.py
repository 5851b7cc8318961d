"""Our policy's own numbers, on networks on which none of them was chosen: the work of pairs and of sets of three.

For each number other values than the default are tried, one at a time, on a simulated V100. Work is the device's time
alone of the iterations that ended, over the time that passed, so that taking turns gives 1. No network is one of those
of a reproduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import Job
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.policies.neaptide import Neaptide
from neaptide.policies.temporal import Temporal
from neaptide.reporting.terminal.bench import Figure
from neaptide.reproductions.laboratory import Laboratory
from neaptide.simulation import Submission, simulate

# The share of the device that each is to use alone; its batch is the one of the ladder that comes nearest.
NETWORKS = {"densenet121": 0.4, "mobilenet-v2": 0.5, "unet": 0.6, "gpt2": 0.7, "transformer": 0.8}
LADDER = (1, 2, 4, 8, 16, 32, 64, 128)
# How many jobs, and where the memory is between what turns need and the sum of the peaks.
KINDS = {"pairs, half of the peaks": (2, 0.5), "threes, half of the peaks": (3, 0.5), "pairs, room for both": (2, 1.0)}
TRIED: dict[str, tuple[float, ...]] = {
    "early": (0.0, 0.25, 0.75),
    "width": (1.5, 2.5),
    "gain": (0.1, 0.4),
    "worth_sharing": (0.8, 1.1),
    "try_again": (16, 256),
    "in_flight": (16, 256),
    "behind": (0, 8),
}
ROUNDS = 30  # a run is as long as this many iterations of each job in turns
SAME = 0.002  # runs end inside iterations


def figures() -> Iterator[Figure]:
    """The defaults against turns, then each other value against the defaults."""
    trials = Trials()
    for title, (jobs, room) in KINDS.items():
        sets = list(combinations_with_replacement(NETWORKS, jobs))
        base = [trials.work(names, room, Neaptide()) for names in sets]
        turns = [trials.work(names, room, Temporal()) for names in sets]
        gains = [mine / other for mine, other in zip(base, turns, strict=True)]
        yield from _spread(f"{title}, defaults against turns", gains)
        for number, values in TRIED.items():
            for value in values:
                others = [trials.work(names, room, Neaptide(**{number: value})) for names in sets]  # type: ignore[arg-type]
                against = [other / mine for other, mine in zip(others, base, strict=True)]
                yield from _spread(f"{title}, {number} {value:g} against {getattr(Neaptide, number):g}", against)


def _spread(title: str, ratios: Sequence[float]) -> Iterator[Figure]:
    yield Figure(f"{title}: mean", sum(ratios) / len(ratios), "x")
    yield Figure(f"{title}: least", min(ratios), "x")
    yield Figure(f"{title}: most", max(ratios), "x")
    yield Figure(f"{title}: sets that change", sum(abs(each - 1) > SAME for each in ratios), f"of {len(ratios)}")


class Trials:
    """Runs sets of jobs under a policy."""

    def __init__(self) -> None:
        self._laboratory = laboratory = Laboratory(find_device("V100"))
        self._batches = {name: laboratory.batch_near(name, use, LADDER) for name, use in NETWORKS.items()}

    def work(self, names: tuple[str, ...], room: float, policy: Policy) -> float:
        """What the jobs do per unit of time."""
        laboratory = self._laboratory
        profiles = [laboratory.profile(name, self._batches[name]) for name in names]
        at_rest = sum(profile.persistent_bytes for profile in profiles)
        tides = [profile.ephemeral_bytes for profile in profiles]
        budget_bytes = at_rest + max(tides) + round(room * (sum(tides) - max(tides)))
        submissions = [
            Submission(Job(name=str(number), trace=laboratory.trace(name, self._batches[name])))
            for number, name in enumerate(names)
        ]
        lasts_ns = ROUNDS * sum(profile.solo_ns for profile in profiles)
        outcome = simulate(submissions, laboratory.device, budget_bytes, policy, until_ns=lasts_ns)
        ended = [entry for entry in outcome.entries if isinstance(entry, IterationEnded)]
        return sum(profiles[int(entry.job)].solo_ns * entry.iterations for entry in ended) / outcome.end_ns
