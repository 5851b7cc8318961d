"""Our policy's own numbers, on networks on which none of them was chosen: the work of pairs and of sets of three.

For each number other values than the default are tried, one at a time, on a simulated V100. Work is the device's time
alone of the iterations that ended, over the time that passed, so that taking turns gives 1. No network is one of those
of a reproduction. Numbers about requests are tried on a server beside each training, and the patience of those who wait
on queues of jobs of many lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations_with_replacement, islice
from random import Random
from statistics import mean
from unittest.mock import patch

from neaptide.core.control.events import IterationEnded, JobEnded
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.policies.neaptide import Neaptide
from neaptide.policies.parts import danger
from neaptide.policies.temporal import Temporal
from neaptide.reporting.terminal.bench import Figure
from neaptide.reproductions.laboratory import Laboratory
from neaptide.simulation import Submission, simulate
from neaptide.simulation.workloads import poisson

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
SERVERS = ("mobilenet-v2", "densenet121")
LOADS = (0.3, 0.6)  # of what the server can do alone
REQUESTS, REQUEST_BATCH, SLO = 200, 16, 2.0  # the deadline is so many times the time of a request alone, at least 50 ms
# Of Neaptide, or of policies/parts/danger.py.
TRIED_WITH_REQUESTS: dict[str, tuple[float, ...]] = {
    "spare": (0.0, 0.1),
    "lead": (1.0, 1.4),
    "_MOST_REQUESTS": (16, 256),
    "_PATIENCE_NS": (100_000_000, 2_000_000_000),
    "_PATIENCE": (2.0, 8.0),
    "_HALF_OPEN": (4, 16),
    "_NOT_WORTH_NS": (0, 4_000_000),
}
QUEUES, QUEUE, LONGEST = 12, 10, 60  # how many queues, how many jobs in each, and their most iterations
PATIENCE = (3.0, 30.0)
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
    yield from _with_requests(trials)
    yield from _with_queues(trials)


def _with_requests(trials: Trials) -> Iterator[Figure]:
    """How many deadlines are kept, and what the training does meanwhile."""
    cases = [(server, load, name) for server in SERVERS for load in LOADS for name in NETWORKS]
    base = [trials.beside_server(*case, Neaptide()) for case in cases]
    yield Figure("server beside training, defaults: deadlines kept, least", min(kept for kept, _ in base), "")
    for number, values in TRIED_WITH_REQUESTS.items():
        ours = hasattr(Neaptide, number)
        default = getattr(Neaptide if ours else danger, number)
        for value in values:
            policy = Neaptide(**{number: value}) if ours else Neaptide()  # type: ignore[arg-type]
            with nullcontext() if ours else patch.object(danger, number, value):
                others = [trials.beside_server(*case, policy) for case in cases]
            title = f"server beside training, {number} {value:g} against {default:g}"
            yield Figure(f"{title}: deadlines kept, least", min(kept for kept, _ in others), "")
            yield from _spread(
                f"{title}, training", [each[1] / mine[1] for each, mine in zip(others, base, strict=True)]
            )


def _with_queues(trials: Trials) -> Iterator[Figure]:
    """The completion times of jobs of which few fit at once."""
    base = [trials.queue(seed, Neaptide()) for seed in range(QUEUES)]
    for value in PATIENCE:
        others = [trials.queue(seed, Neaptide(patience=value)) for seed in range(QUEUES)]
        for at, what in enumerate(("mean completion", "largest slowdown")):
            against = [other[at] / mine[at] for other, mine in zip(others, base, strict=True)]
            yield from _spread(f"queues, patience {value:g} against {Neaptide.patience:g}, {what}", against)


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

    def beside_server(self, server: str, load: float, training: str, policy: Policy) -> tuple[float, float]:
        """The share of the deadlines that a server keeps beside a training, and the training's iterations meanwhile."""
        laboratory = self._laboratory
        served = replace(laboratory.trace(server, REQUEST_BATCH, inference=True), batch=1)
        arrivals = tuple(islice(poisson(load / served.seconds, seed=0), REQUESTS))
        serving = Job(
            name="server",
            trace=served,
            kind=JobKind.INFERENCE,
            deadline_seconds=max(SLO * served.seconds, 0.05),
        )
        submissions = [
            Submission(serving, 0, arrivals),
            Submission(Job(name="training", trace=laboratory.trace(training, self._batches[training]))),
        ]
        memory_bytes = laboratory.device.memory_bytes
        outcome = simulate(submissions, laboratory.device, memory_bytes, policy, until_ns=arrivals[-1])
        ends = [entry for entry in outcome.entries if isinstance(entry, IterationEnded)]
        waits = [entry.at_ns - arrived for entry in ends if entry.job == "server" for arrived in entry.arrivals_ns]
        assert serving.deadline_seconds is not None
        kept = sum(wait <= serving.deadline_seconds * 1e9 for wait in waits) / len(waits)
        return kept, sum(entry.iterations for entry in ends if entry.job == "training") / (arrivals[-1] / 1e9)

    def queue(self, seed: int, policy: Policy) -> tuple[float, float]:
        """Mean completion, in ns, and the largest slowdown, of jobs that come at once, in memory for about two."""
        laboratory, chance = self._laboratory, Random(seed)
        names = [chance.choice(list(NETWORKS)) for _ in range(QUEUE)]
        profiles = [laboratory.profile(name, self._batches[name]) for name in names]
        lengths = [round(LONGEST ** chance.random()) for _ in names]
        submissions = [
            Submission(
                Job(name=str(number), trace=laboratory.trace(name, self._batches[name]), iterations=length), number
            )
            for number, (name, length) in enumerate(zip(names, lengths, strict=True))
        ]
        peaks = sorted(profile.peak_bytes for profile in profiles)
        outcome = simulate(submissions, laboratory.device, sum(peaks[-2:]), policy)
        ends = {entry.job: entry.at_ns for entry in outcome.entries if isinstance(entry, JobEnded)}
        alone = [profile.solo_ns * length for profile, length in zip(profiles, lengths, strict=True)]
        return mean(ends.values()), max(ends[str(number)] / each for number, each in enumerate(alone))
