"""A scenario as it is written in TOML: jobs, device, budget and policies. What is wrong is said with its line."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from neaptide.core.device import DeviceSpec, parse_device
from neaptide.core.units import format_bytes, parse_bytes, parse_seconds
from neaptide.scenarios.sources import DEFAULT_DEVICE, device_of
from neaptide.scenarios.toml import Place, convert
from neaptide.simulation.workloads import parse_jobs

DEFAULT_POLICIES = ("temporal", "neaptide")
Time = str | int | float  # "50ms", or seconds
Arrivals = Literal["fixed", "poisson"]


class RequestsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Samples that arrive at an inference job from its own arrival on, whether or not it keeps up."""

    rate: float  # per second
    count: int | None = None
    duration: Time | None = None
    arrivals: Arrivals = "poisson"


class JobTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[job]]`."""

    name: str | None = None
    model: str | None = None
    batch: int | None = None
    scale: Literal["paper", "tiny"] = "paper"
    trace: str | None = None
    plans: tuple[str, ...] = ()
    kind: Literal["training", "inference"] | None = None
    iterations: int | None = None
    duration: Time | None = None  # alone
    arrives: Time = 0
    count: int = 1
    every: Time = 0  # between copies
    arrivals: Arrivals = "fixed"  # of the copies
    priority: int = 0
    slo: Time | None = None
    requests: RequestsTable | None = None

    @property
    def title(self) -> str:
        return self.name or self.model or (Path(self.trace).stem if self.trace else "") or "?"

    @property
    def inference(self) -> bool:
        return self.kind == "inference" or (self.kind is None and self.requests is not None)


class BudgetChangeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[budget_change]]`."""

    at: Time
    budget: str | float


class ScenarioTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file's top level."""

    device: str | dict[str, Any] = DEFAULT_DEVICE
    budget: str | float = 1.0
    policies: tuple[str, ...] = DEFAULT_POLICIES
    seed: int = 0
    in_flight: int | None = None
    until: Time | None = None
    arrivals: str | None = None
    job: tuple[dict[str, Any], ...] = ()
    budget_change: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job and where it is written."""

    given: JobTable
    place: Place


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that makes sense as far as one can tell without its traces."""

    name: str
    directory: Path
    place: Place
    device: DeviceSpec
    budget_bytes: int
    policies: tuple[str, ...]
    seed: int
    in_flight: int | None
    until_ns: int | None
    jobs: tuple[JobSpec, ...]
    budget_changes: tuple[tuple[int, int], ...]


def load_scenario(path: Path) -> Scenario:
    """Read a scenario; ValueError with the file and the line that is wrong."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a TOML file")
    return parse_scenario(path.read_text(encoding="utf-8"), path)


def parse_scenario(text: str, path: Path) -> Scenario:
    """Read a scenario's text; what it names is looked for beside `path`."""
    place = Place(path.name, text)
    try:
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name}: not TOML: {error}") from None
    given = convert(tree, ScenarioTable, place)
    with place.blamed("device"):
        device = _device(given.device, path.parent)
    with place.blamed("budget"):
        budget_bytes = budget_of(given.budget, device)
    with place.blamed("until"):
        until_ns = None if given.until is None else ns_of(given.until)
    if given.in_flight is not None and given.in_flight < 1:
        raise ValueError(place.error(f"in_flight must be at least 1, not {given.in_flight}", "in_flight"))
    if given.seed < 0:
        raise ValueError(place.error(f"seed must not be negative, as {given.seed} is", "seed"))
    jobs: list[JobSpec] = []
    if given.arrivals is not None:
        with place.blamed("arrivals"):
            jobs += _listed_jobs(path.parent / given.arrivals)
    elif not given.job:
        raise ValueError(f"{path.name}: there is no job; write at least one [[job]]")
    for index, tree in enumerate(given.job):
        where = Place(path.name, text, "job", index, f"job {tree.get('name') or tree.get('model') or index + 1}")
        jobs.append(JobSpec(convert(tree, JobTable, where), where))
    return Scenario(
        name=path.name,
        directory=path.parent,
        place=place,
        device=device,
        budget_bytes=budget_bytes,
        policies=tuple(str(path.parent / each) if each.endswith(".py") else each for each in given.policies),
        seed=given.seed,
        in_flight=given.in_flight,
        until_ns=until_ns,
        jobs=tuple(jobs),
        budget_changes=tuple(_budget_changes(given.budget_change, device, place)),
    )


def _listed_jobs(path: Path) -> Iterator[JobSpec]:
    """The jobs of a CSV file, each a `[[job]]` of its own."""
    try:
        wanted = parse_jobs(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}, {error}") from None
    copies: Counter[str] = Counter()
    for job in wanted:
        kind = f"{job.model}-{job.batch}"
        copies[kind] += 1
        name = f"{kind}-{copies[kind]}"
        table = JobTable(
            name=name, model=job.model, batch=job.batch, arrives=job.arrives_ns / 1e9, duration=job.solo_seconds
        )
        yield JobSpec(table, Place(path.name, "", title=f"job {name}"))


def _budget_changes(trees: tuple[dict[str, Any], ...], device: DeviceSpec, place: Place) -> Iterator[tuple[int, int]]:
    for index, tree in enumerate(trees):
        where = Place(place.file, place.text, "budget_change", index, f"budget_change {index + 1}")
        change = convert(tree, BudgetChangeTable, where)
        with where.blamed("at"):
            at_ns = ns_of(change.at)
        with where.blamed("budget"):
            yield at_ns, budget_of(change.budget, device)


def _device(given: str | dict[str, Any], directory: Path) -> DeviceSpec:
    if isinstance(given, str):
        is_path = "/" in given or given.endswith(".toml")
        return device_of(str(directory / given) if is_path else given)
    # A table in the scenario is what a device's own file would be.
    return parse_device("\n".join(f"{key} = {json.dumps(value)}" for key, value in {"name": "device", **given}.items()))


def budget_of(given: str | float, device: DeviceSpec) -> int:
    """Bytes from an amount of memory, or from a share of the device's."""
    if isinstance(given, str) and not given.strip().endswith("%"):
        amount = parse_bytes(given)
    else:
        share = _percent(given) / 100 if isinstance(given, str) else given
        if not 0 < share <= 1:
            raise ValueError(f"budget {given} is not a share of the device's memory; write 0.65, 65% or 11GB")
        amount = int(share * device.memory_bytes)
    if amount <= 0:
        raise ValueError("the budget must be positive")
    if amount > device.memory_bytes:
        more = format_bytes(amount - device.memory_bytes)
        raise ValueError(
            f"the budget of {format_bytes(amount)} is {more} more than {device.name} has "
            f"({format_bytes(device.memory_bytes)})"
        )
    return amount


def _percent(text: str) -> float:
    try:
        return float(text.strip()[:-1])
    except ValueError:
        return math.nan


def ns_of(given: Time) -> int:
    """Whole nanoseconds from a duration as people write it, or from seconds."""
    seconds = parse_seconds(given) if isinstance(given, str) else float(given)
    if not 0 <= seconds < 2**33:
        raise ValueError(f"{given} is not a time; write it like 50ms or 1.5s")
    return round(seconds * 1e9)
