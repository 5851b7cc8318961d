"""The submissions of a scenario: jobs and their copies, arrivals and requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice, takewhile
from zlib import crc32

from neaptide.core.control.job import Job, JobKind
from neaptide.core.traces.framework import with_framework
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes, parse_bytes
from neaptide.scenarios.scenario_file import JobSpec, Scenario, ns_of
from neaptide.scenarios.tables import Arrivals
from neaptide.scenarios.traces import Traces
from neaptide.simulation import Submission
from neaptide.simulation.workloads import poisson


def submissions_of(scenario: Scenario, traces: Traces) -> list[Submission]:
    """Every job of the scenario with its copies; ValueError if a job is contradictory or can never run."""
    found: list[Submission] = []
    for spec in scenario.jobs:
        job = _job(spec, traces)
        _check_budget(job, spec, scenario)
        found += _copies(job, spec, scenario)
    name, times = Counter(submission.job.name for submission in found).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{scenario.name}: {times} jobs are called {name!r}; give each its own name")
    if scenario.until_ns is None and all(_endless(submission.job) for submission in found):
        raise ValueError(
            f"{scenario.name}: no job ever ends; give one its iterations, or write until = '60s' at the top"
        )
    return found


def _endless(job: Job) -> bool:
    return job.kind is JobKind.TRAINING and job.iterations is None


def _job(spec: JobSpec, traces: Traces) -> Job:
    """The job of which copies are made."""
    given, place, trace = spec.given, spec.place, traces.of(spec)
    if given.iterations is not None and given.duration is not None:
        raise ValueError(place.error("give iterations or a duration, not both", "duration"))
    if given.inference and given.requests is None:
        raise ValueError(place.error("an inference job needs requests, as in requests = { rate = 10, count = 100 }"))
    if given.inference and (given.iterations, given.duration) != (None, None):
        reason = "an inference job ends when its requests are served; it has no iterations or duration"
        raise ValueError(place.error(reason, "iterations", "duration"))
    if given.latency_critical and not given.inference:
        raise ValueError(place.error("a training job cannot be latency-critical", "latency_critical"))
    if not given.inference and (given.requests, given.slo) != (None, None):
        raise ValueError(place.error("a training job has neither requests nor an slo", "requests", "slo", "kind"))
    with place.blamed("framework"):
        framework_bytes = 0 if given.framework is None else parse_bytes(given.framework)
    trace, *others = [with_framework(each, framework_bytes) for each in (trace, *traces.alternatives(spec))]
    with place.blamed("iterations", "duration", "slo", "slo_quantile"):
        return Job(
            name=given.title,
            trace=trace,
            alternatives=tuple(others),
            kind=JobKind.INFERENCE if given.inference else JobKind.TRAINING,
            iterations=given.iterations if given.duration is None else _iterations_in(ns_of(given.duration), trace),
            priority=given.priority,
            deadline_seconds=None if given.slo is None else ns_of(given.slo) / 1e9,
            deadline_quantile=given.slo_quantile,
            latency_critical=given.latency_critical,
        )


def _iterations_in(duration_ns: int, trace: Trace) -> int:
    """How many iterations a job that is alone does in this time; at least one."""
    return max(1, round(duration_ns / max(trace.seconds * 1e9, 1.0)))


def _copies(job: Job, spec: JobSpec, scenario: Scenario) -> Iterator[Submission]:
    given, place = spec.given, spec.place
    if given.count < 1:
        raise ValueError(place.error(f"count must be at least 1, not {given.count}", "count"))
    with place.blamed("arrives", "every"):
        first_ns, gap_ns = ns_of(given.arrives), ns_of(given.every)
    arrivals = [first_ns] * given.count
    if gap_ns:
        later = _times(given.arrivals, 1e9 / gap_ns, first_ns, f"{scenario.seed} {job.name} copies")
        arrivals[1:] = islice(later, given.count - 1)
    for number, arrives_ns in enumerate(arrivals, 1):
        copy = job if given.count == 1 else replace(job, name=f"{job.name}-{number}")
        yield Submission(copy, arrives_ns, _requests(copy.name, arrives_ns, spec, scenario))


def _requests(name: str, arrives_ns: int, spec: JobSpec, scenario: Scenario) -> tuple[int, ...]:
    """When the samples of an inference job arrive."""
    given, place = spec.given.requests, spec.place
    if given is None:
        return ()
    if not 0 < given.rate <= 1e9:
        raise ValueError(place.error(f"the rate of requests must be positive, not {given.rate}", "requests"))
    with place.blamed("requests"):
        end_ns = scenario.until_ns if given.duration is None else arrives_ns + ns_of(given.duration)
    if end_ns is None and given.count is None:
        raise ValueError(place.error("requests need a count or a duration", "requests"))
    times = islice(_times(given.arrivals, given.rate, arrives_ns, f"{scenario.seed} {name} requests"), given.count)
    found = tuple(takewhile(lambda at_ns: end_ns is None or at_ns < end_ns, times))
    if not found:
        raise ValueError(place.error("no request arrives; raise the rate, the count or the duration", "requests"))
    return found


def _times(how: Arrivals, per_second: float, start_ns: int, seed: str) -> Iterator[int]:
    """An endless series of times after the start. Random times depend on the seed alone."""
    if how == "poisson":
        return poisson(per_second, crc32(seed.encode()), start_ns=start_ns)
    return (start_ns + round(number * 1e9 / per_second) for number in count(1))


def _check_budget(job: Job, spec: JobSpec, scenario: Scenario) -> None:
    """Raise ValueError unless the job alone fits the scenario's largest budget under one of its plans."""
    least = min((Profile.of(trace) for trace in (job.trace, *job.alternatives)), key=lambda each: each.peak_bytes)
    budget = max([scenario.budget_bytes, *(amount for _, amount in scenario.budget_changes)])
    if least.peak_bytes > budget:
        reason = (
            f"it needs {format_bytes(least.peak_bytes)} alone, {format_bytes(least.peak_bytes - budget)} more than the "
            f"budget of {format_bytes(budget)}; raise the budget or lower the batch"
        )
        raise ValueError(spec.place.error(reason))
