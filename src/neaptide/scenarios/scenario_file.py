"""Reads a scenario file: jobs, device, budget and policies. Errors name the file and the line."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neaptide.core.device import DeviceSpec, parse_device
from neaptide.core.units import format_bytes, parse_bytes
from neaptide.scenarios.sources import device_of
from neaptide.scenarios.tables import BudgetChangeTable, JobTable, ScenarioTable
from neaptide.scenarios.toml import Place, Time, convert, parse, seconds_of, text_of
from neaptide.simulation.workloads import parse_job_list


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job, and its place in the file."""

    given: JobTable
    place: Place


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, checked as far as is possible without its traces."""

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
    """Read a scenario file; ValueError with the file and the line of a mistake."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a TOML file")
    return parse_scenario(text_of(path), path)


def parse_scenario(text: str, path: Path) -> Scenario:
    """Read a scenario's text; files that it names are relative to the folder of `path`."""
    place = Place(path.name, text)
    given = convert(parse(place), ScenarioTable, place)
    with place.blamed("device"):
        device = _device(given.device, path.parent)
    with place.blamed("budget"):
        budget_bytes = budget_of(given.budget, device)
    with place.blamed("until"):
        until_ns = None if given.until is None else ns_of(given.until)
    if given.in_flight is not None and given.in_flight < 1:
        raise ValueError(place.error(f"in_flight must be at least 1, not {given.in_flight}", "in_flight"))
    if given.seed < 0:
        raise ValueError(place.error(f"seed must not be negative, not {given.seed}", "seed"))
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
    """The jobs of a CSV file, each like one `[[job]]`."""
    text = text_of(path)
    try:
        wanted = parse_job_list(text)
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
        return device_of(given, directory)
    # A table in the scenario has the same keys as a device file.
    return parse_device("\n".join(f"{key} = {json.dumps(value)}" for key, value in {"name": "device", **given}.items()))


def budget_of(given: str | float, device: DeviceSpec) -> int:
    """Bytes from an amount of memory, or from a share of the device's memory."""
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
    """Nanoseconds from a duration such as 50ms, or from seconds."""
    return round(seconds_of(given) * 1e9)
