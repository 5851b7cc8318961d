"""The server and the training of `neaptide bench serve` in virtual time, with the same requests.

The traces are those that the daemon measured. What a request takes beyond its device time alone is its program's work,
which comes before its first kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from benchmarks._serve_run import Round, Setting

from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import Job, JobKind
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.policies.files import find_policy
from neaptide.simulation import Contention, Submission, simulate

_AS_FAST = Contention(compute=1e9, bandwidth=1e9, fill=1.0, wave_seconds=0)  # jobs share the SMs, and nothing else
_AFTER_SECONDS = 20.0  # until the last answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What was measured of the two programs, and the device's SMs."""

    served: Trace
    trained: Trace
    service_seconds: float  # of a request alone, its program's work included
    sms: int

    def run(
        self, setting: Setting, slo_seconds: float, times: Sequence[float], warm_seconds: float, seconds: float
    ) -> Round:
        """A round as `Group.measure` shows it; its rate is the training's speed, of alone."""
        served = _after(self.served, self.service_seconds - self.served.seconds)
        server = Job(
            name="server",
            trace=replace(served, batch=1),
            kind=JobKind.INFERENCE,
            deadline_seconds=slo_seconds,
            latency_critical=setting.latency_critical,
        )
        assert setting.policy is not None, f"{setting.name} has no policy"
        device = replace(find_device("soft"), sms=self.sms)
        submissions = [Submission(server, 0, tuple(round(1e9 * each) for each in times))]
        submissions += [Submission(Job(name="training", trace=self.trained))] if setting.trains else []
        until_ns = round(1e9 * (warm_seconds + seconds + _AFTER_SECONDS))
        outcome = simulate(
            submissions,
            device,
            device.memory_bytes,
            find_policy(setting.policy),
            contention=_AS_FAST,
            until_ns=until_ns,
        )
        ends = [each for each in outcome.entries if isinstance(each, IterationEnded)]
        took = {at: each.at_ns - at for each in ends if each.job == "server" for at in each.arrivals_ns}
        last = warm_seconds + seconds
        inside = [each for each in times if warm_seconds <= each < last]
        requests = tuple((each, took.get(round(1e9 * each), inf) / 1e9) for each in inside)
        done = sum(each.job == "training" and 1e9 * warm_seconds <= each.at_ns < 1e9 * last for each in ends)
        return Round(requests, done * self.trained.seconds / seconds)


def _after(trace: Trace, seconds: float) -> Trace:
    """The trace with so much more of its program's work before the first kernel."""
    host_seconds = trace.ops.host_seconds.copy()
    host_seconds[0] += max(seconds, 0.0)
    return replace(trace, ops=replace(trace.ops, host_seconds=host_seconds))
