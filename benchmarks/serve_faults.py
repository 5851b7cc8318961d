"""A server beside training when one of them dies or stands still: how long the other is held up.

The server of `benchmarks.serve` is asked at half of what it can do alone. `python -m benchmarks.serve_faults` takes
about a minute for each goal.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Mapping
from statistics import median
from threading import Timer
from time import monotonic_ns

from benchmarks._serve_load import poisson
from benchmarks._serve_run import Group, Round, Setting, Sizes, group, unanswered

from neaptide.reporting.terminal.bench import Figure, figure_line

# `--slo` and `--latency-critical`.
GOALS = (Setting(name="neaptide"), Setting(name="latency-critical", latency_critical=True))
LOAD = 0.5
SLO_SECONDS = 0.15
WARM_SECONDS, SECONDS = 1.0, 7.0
AT, LASTS = 3.0, 3.0  # seconds after the begin: when a signal comes, and how long a process is stopped


def figures(sms: int = 1) -> Iterator[Figure]:
    """Each goal with a stop of the server, a kill of the server, and a kill of the training."""
    for setting in GOALS:
        name, stop = setting.name, {AT: ("server", signal.SIGSTOP), AT + LASTS: ("server", signal.SIGCONT)}
        with group(setting, Sizes(sms=sms), SLO_SECONDS) as found:
            times = poisson(LOAD / median(found.service_seconds(20)), WARM_SECONDS + SECONDS, 1)
            usual = found.measure(times, WARM_SECONDS, SECONDS)
            yield Figure(f"{name}: training beside the server", usual.rate, "it/s")
            seen, held = _disturbed(found, times, stop)
            yield Figure(f"{name}: server stopped, longest iteration of the training", held, "s", "<= 1")
            yield Figure(f"{name}: server stopped, not answered", unanswered([seen]), "requests", "<= 0")
            _, held = _disturbed(found, times, {AT: ("server", signal.SIGKILL)})
            yield Figure(f"{name}: server killed, longest iteration of the training", held, "s", "<= 1")
        with group(setting, Sizes(sms=sms), SLO_SECONDS) as found:
            seen, _ = _disturbed(found, times, {AT: ("training", signal.SIGKILL)})
            yield Figure(f"{name}: training killed, not answered", unanswered([seen]), "requests", "<= 0")


Signals = Mapping[float, tuple[str, signal.Signals]]  # at seconds after the begin: to which job


def _disturbed(found: Group, times: list[float], signals: Signals) -> tuple[Round, float]:
    """A round in which jobs get signals; and the longest that the training took for an iteration from the first on."""
    timers = [Timer(at, found.send, each) for at, each in signals.items()]
    began_ns = monotonic_ns()
    for timer in timers:
        timer.start()
    seen = found.measure(times, WARM_SECONDS, SECONDS)
    for timer in timers:
        timer.join()
    first, last = min(signals), WARM_SECONDS + SECONDS
    return seen, found.longest_wait_seconds(began_ns + round(1e9 * first), began_ns + round(1e9 * last))


def main() -> None:
    """All figures, printed as they come."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_faults", description=__doc__)
    parser.add_argument("--sms", type=int, default=1)
    for figure in figures(parser.parse_args().sms):
        print(figure_line(figure), flush=True)


if __name__ == "__main__":
    main()
