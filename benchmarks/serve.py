"""A server beside training: what each policy leaves of its latency, of its deadlines and of the training's speed.

A small BERT behind FastAPI is asked in an open loop (`_serve_load.py`) while a GPT-2 trains on the same device. The
deadline is twice the p99 of the server alone. The settings take turns within one run, with the same arrivals; figures
are medians of the rounds.

`python -m benchmarks.serve --quick` tries one device and one load in a few minutes; --help lists what can be chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks._serve_load import Tail, burst, poisson, replayed
from benchmarks._serve_run import Group, Round, Setting, Sizes, group, unanswered
from benchmarks._serve_simulated import Programs

from neaptide.reporting.figures.files import save_figure
from neaptide.reporting.terminal.bench import Figure, figure_line

SERVER, TRAINING = Setting(name="server alone", trains=False), Setting(name="training alone", serves=False)
PLAIN = Setting(name="server without neaptide", policy=None, trains=False)
IDLE = Setting(name="idle server", asked=False)
SHARED = (
    Setting(name="turns", policy="temporal"),
    Setting(name="spatial", policy="spatial"),
    Setting(name="herald", policy="herald"),
    Setting(name="neaptide"),
    Setting(name="latency-critical", latency_critical=True),
)
ALL = (PLAIN, IDLE, *SHARED)
LOADS = (0.2, 0.5)  # of what the server can do alone
SERVICE_REQUESTS = 40
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
SLO_FACTOR = 2.0  # times the p99 alone
BURST_BEGINS, BURST_SECONDS, BURST_TIMES = 4.0, 2.0, 10.0
_PICTURE = Path(__file__).parent.parent / "docs" / "images" / "serve.png"

Arrivals = Callable[[float, float, int], list[float]]  # of a rate, for so many seconds, in a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One comparison: a device, a load, how long, and who takes part."""

    sizes: Sizes
    load: float
    rounds: int = 3
    seconds: float = 12.0
    warm_seconds: float = 2.0
    others: Sequence[Setting] = ALL  # beside the server alone and the training alone
    arrivals: Arrivals = poisson
    burst_ends: float | None = None  # seconds after the warm-up's begin

    @property
    def title(self) -> str:
        return f"{self.sizes.sms} SM, load {self.load:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one setting showed, over all rounds."""

    percentiles: Mapping[str, float]  # in seconds
    kept: float
    throughput: float  # of the training alone
    lost: int
    last_late: float  # when the last request was due that took longer than the deadline, in seconds


def figures() -> Iterator[Figure]:
    """Devices of 1 and 2 SMs at two loads, and the picture of the device of 1 SM at load 0.5."""
    for sms in (1, 2):
        for load in LOADS:
            found: dict[str, Seen] = {}
            yield from compare(Plan(sizes=Sizes(sms=sms), load=load), found)
            if (sms, load) == (1, LOADS[-1]):
                save_figure(lambda found=found: _picture(found), _PICTURE)  # type: ignore[misc]


def compare(plan: Plan, found: dict[str, Seen]) -> Iterator[Figure]:
    """Run all settings of a plan in rounds; `found` gets what each showed."""
    lasts = plan.warm_seconds + plan.seconds
    with ExitStack() as stack:
        server = stack.enter_context(group(SERVER, plan.sizes, None))
        service = median(server.service_seconds(SERVICE_REQUESTS))
        rate = plan.load / service
        usual = plan.arrivals if plan.burst_ends is None else poisson
        first = server.measure(usual(rate, lasts, 0), plan.warm_seconds, plan.seconds)
        slo_seconds = SLO_FACTOR * first.tail.percentile(0.99)
        yield Figure(f"{plan.title}: a request alone", 1e3 * service, "ms")
        yield Figure(f"{plan.title}: deadline", 1e3 * slo_seconds, "ms")
        groups = {SERVER.name: server}
        for setting in (TRAINING, *plan.others):
            groups[setting.name] = stack.enter_context(group(setting, plan.sizes, slo_seconds))
        programs = Programs(
            served=server.trace("server"),
            trained=groups[TRAINING.name].trace("training"),
            service_seconds=service,
            sms=plan.sizes.sms,
        )
        longest = float(programs.trained.ops.seconds.max())
        yield Figure(f"{plan.title}: longest training kernel", 1e3 * longest, "ms")
        silent = {each.name for each in (TRAINING, *plan.others) if not (each.serves and each.asked)}
        rounds = _rounds(plan, groups, silent, rate)
    alone = median(each.rate for each in rounds[TRAINING.name])
    yield Figure(f"{plan.title}: training alone", alone, "it/s")
    for setting in (SERVER, *plan.others):
        seen = _seen(rounds[setting.name], slo_seconds, alone)
        if not setting.asked:
            yield Figure(f"{plan.title}, {setting.name}: training", seen.throughput, "of alone", ">= 0.98")
            continue
        found[setting.name] = seen
        yield from _figures(plan, setting, seen, found[SERVER.name], longest)
        if setting.policy is not None:
            yield from _compared(plan, setting, seen, programs, slo_seconds, rate)


def _compared(
    plan: Plan, setting: Setting, seen: Seen, programs: Programs, slo_seconds: float, rate: float
) -> Iterator[Figure]:
    """The same rounds in virtual time, over the live ones."""
    rounds = list[Round]()
    for index in range(1, plan.rounds + 1):
        times = plan.arrivals(rate, plan.warm_seconds + plan.seconds, index)
        rounds.append(programs.run(setting, slo_seconds, times, plan.warm_seconds, plan.seconds))
    virtual = _seen(rounds, slo_seconds, 1.0)
    title, p99 = f"{plan.title}, {setting.name}", virtual.percentiles["p99"] / seen.percentiles["p99"]
    yield Figure(f"{title}: p99, simulated over live", p99, "x")
    if setting.trains:
        yield Figure(f"{title}: training, simulated over live", virtual.throughput / max(seen.throughput, 1e-9), "x")


def _rounds(plan: Plan, groups: Mapping[str, Group], silent: set[str], rate: float) -> dict[str, list[Round]]:
    """Every group once per round, in the opposite order every other round; `silent` ones get no requests."""
    found = {name: list[Round]() for name in groups}
    for index in range(1, plan.rounds + 1):
        times = plan.arrivals(rate, plan.warm_seconds + plan.seconds, index)
        for name in list(groups) if index % 2 else reversed(list(groups)):
            offered = [] if name in silent else times
            found[name].append(groups[name].measure(offered, plan.warm_seconds, plan.seconds))
    return found


def _seen(rounds: Sequence[Round], slo_seconds: float, alone: float) -> Seen:
    requests = sum(len(each.latencies) for each in rounds)
    tails: list[Tail] = [each.tail for each in rounds]
    return Seen(
        percentiles={name: median(tail.percentile(at) for tail in tails) for name, at in PERCENTILES.items()},
        kept=sum(each.kept(slo_seconds) for each in rounds) / max(requests, 1),
        throughput=median(each.rate for each in rounds) / alone if alone else 0.0,
        lost=unanswered(rounds),
        last_late=median(each.last_late(slo_seconds) for each in rounds),
    )


def _figures(plan: Plan, setting: Setting, seen: Seen, server: Seen, longest_seconds: float) -> Iterator[Figure]:
    """`server`: what the server alone showed. The p99 has the longest training kernel, too: nobody interrupts it."""
    title, ours = f"{plan.title}, {setting.name}", setting.policy == "neaptide" and setting.trains
    limit_seconds = server.percentiles["p99"] + longest_seconds
    if setting == PLAIN:
        ratio = server.percentiles["p99"] / seen.percentiles["p99"]
        yield Figure(f"{plan.title}: p99 of the server alone under neaptide", ratio, "of without", "<= 1.02")
    if plan.burst_ends is not None:
        goal = f"<= {max(server.last_late, plan.burst_ends) + 1 - plan.burst_ends:.1f}" if ours else ""
        yield Figure(f"{title}: last late answer", seen.last_late - plan.burst_ends, "s after the burst", goal)
    for name, seconds in seen.percentiles.items():
        bounded = name == "p99" and setting.latency_critical
        yield Figure(f"{title}: {name}", 1e3 * seconds, "ms", f"<= {1.1e3 * limit_seconds:.1f}" if bounded else "")
    yield Figure(f"{title}: deadlines kept", seen.kept, "", ">= 0.99" if ours else "")
    yield Figure(f"{title}: not answered", seen.lost, "requests", "<= 0")
    if setting.trains:
        left = 0.9 * (1 - plan.load)  # the load is the server's share of a device of one SM
        goal = f">= {left:.3f}" if ours and plan.sizes.sms == 1 else ""
        yield Figure(f"{title}: training", seen.throughput, "of alone", goal)


def _picture(found: Mapping[str, Seen]) -> object:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(6.0, 4.0), layout="constrained")
    axes = picture.subplots()
    for name, seen in found.items():
        low, high = 1e3 * seen.percentiles["p50"], 1e3 * seen.percentiles["p99"]
        (line,) = axes.plot([seen.throughput] * 2, [low, high], marker="_", linewidth=1)
        axes.plot([seen.throughput], [high], marker="o", color=line.get_color(), label=name)
    axes.set_xlabel("training, of its speed alone")
    axes.set_ylabel("latency, p50 to p99 (ms)")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(bottom=0)
    axes.legend()
    return picture


def _plan_of(given: argparse.Namespace) -> Plan:
    arrivals: Arrivals = poisson
    burst_ends = None
    if given.replay is not None:
        arrivals = lambda rate, seconds, _: replayed(given.replay, rate, seconds)  # noqa: E731
    elif given.burst:
        begins, burst_ends = BURST_BEGINS, BURST_BEGINS + BURST_SECONDS
        arrivals = lambda rate, seconds, seed: burst(rate, seconds, begins, BURST_SECONDS, BURST_TIMES, seed)  # noqa: E731
    return Plan(
        sizes=Sizes(sms=given.sms, threads=given.threads),
        load=given.load,
        rounds=given.rounds,
        seconds=given.seconds,
        others=[each for each in ALL if given.settings is None or each.name in given.settings],
        arrivals=arrivals,
        burst_ends=burst_ends,
    )


def main() -> None:
    """One device and one load, printed as they come."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds of 8 s of spatial, herald and neaptide")
    parser.add_argument("--sms", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.5, help="of what the server can do alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--settings", nargs="+", choices=[each.name for each in ALL])
    parser.add_argument("--threads", action="store_true", help="`def` endpoints instead of `async def`")
    parser.add_argument("--replay", type=Path, help="a CSV file with a column TIMESTAMP")
    parser.add_argument("--burst", action="store_true", help="ten times the rate for 2 s")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds = 2, 8.0
        given.settings = given.settings or ["spatial", "herald", "neaptide"]
    found: dict[str, Seen] = {}
    for figure in compare(_plan_of(given), found):
        print(figure_line(figure), flush=True)
    if given.picture is not None:
        save_figure(lambda: _picture(found), given.picture)


if __name__ == "__main__":
    main()
