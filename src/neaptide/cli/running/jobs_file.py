"""The jobs of `neaptide run` as they are written in TOML. An error names the line that is wrong."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from neaptide.core.control.job_limits import (
    check_deadline,
    check_iterations,
    check_memory,
    check_priority,
    check_quantile,
    check_serving,
    checked_name,
    usable_name,
)
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.core.units import parse_bytes
from neaptide.devices import default_kind
from neaptide.devices.interface import DeviceSettings
from neaptide.live.runs.launching import JobCommand
from neaptide.scenarios.toml import Place, Time, convert, parse, seconds_of

_PYTHON = ("python", "python3")


class JobTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[job]]`."""

    command: str | tuple[str, ...]
    name: str | None = None
    kind: Literal["training", "inference"] = "training"
    env: dict[str, str | int | float | bool] = {}
    cwd: str | None = None
    priority: int = 0
    slo: Time | None = None
    slo_quantile: float = DEFAULT_QUANTILE
    latency_critical: bool = False
    iterations: int | None = None
    memory: str | int | None = None


class FileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file's top level."""

    budget: str | int | None = None
    policy: str | None = None
    device: dict[str, Any] = {}
    job: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class JobsFile:
    """The jobs to run. Without a budget or a policy the daemon's own is used."""

    name: str
    budget_bytes: int | None
    policy: str | None
    device: DeviceSettings
    jobs: tuple[JobCommand, ...]


def load_jobs(path: Path) -> JobsFile:
    """Read a file of jobs; ValueError with the file and the line that is wrong."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a TOML file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file; name a TOML file, or write -- before a command") from None
    return parse_jobs(text, path)


def parse_jobs(text: str, path: Path) -> JobsFile:
    """Read a file's text; paths in it are relative to the folder of `path`."""
    place = Place(path.name, text)
    tree = parse(place)
    if isinstance(tree.get("job"), dict):
        raise ValueError(place.error("write [[job]], with two brackets, at the head of each job", "job"))
    given = convert(tree, FileTable, place)
    with place.blamed("budget"):
        budget_bytes = None if given.budget is None else budget_of(given.budget)
    if not given.job:
        raise ValueError(f"{path.name}: there is no job; write at least one [[job]] with a command")
    jobs = [_job(each, index, path, text) for index, each in enumerate(given.job)]
    name, times = Counter(job.name for job in jobs).most_common(1)[0]
    if times > 1:
        second = [index for index, job in enumerate(jobs) if job.name == name][1]
        where = Place(path.name, text, "job", second)
        raise ValueError(where.error(f"{times} jobs are called {name!r}; give each its own name", "name"))
    return JobsFile(
        name=path.stem,
        budget_bytes=budget_bytes,
        policy=str(path.parent / given.policy) if given.policy and given.policy.endswith(".py") else given.policy,
        device=_device(given.device, place),
        jobs=tuple(jobs),
    )


def budget_of(given: str | int) -> int:
    """Bytes from an amount of memory such as 6GiB."""
    amount = parse_bytes(given) if isinstance(given, str) else given
    if amount <= 0:
        raise ValueError("the budget must be positive")
    return amount


def memory_of(given: str | int) -> int:
    """Bytes that a job will hold, from an amount of memory such as 2GiB."""
    amount = parse_bytes(given) if isinstance(given, str) else given
    check_memory(amount)
    return amount


def _device(tree: dict[str, Any], place: Place) -> DeviceSettings:
    """The settings of the chosen device: its kind says which keys the table has."""
    where = Place(place.file, place.text, "device", title="device")
    settings_type = default_kind().settings_type
    keys = [(name, hint, None) for name, hint in get_type_hints(settings_type).items()]
    table = msgspec.defstruct("DeviceTable", keys, frozen=True, kw_only=True, forbid_unknown_fields=True)
    given = msgspec.structs.asdict(convert(tree, table, where))
    try:
        return settings_type(**given)
    except ValueError as error:
        raise ValueError(where.error(str(error), *re.split(r"\W", str(error), maxsplit=1)[:1])) from None


def _job(tree: dict[str, Any], index: int, path: Path, text: str) -> JobCommand:
    where = Place(path.name, text, "job", index, f"job {tree.get('name') or index + 1}")
    given = convert(tree, JobTable, where)
    with where.blamed("command"):
        command = command_of(given.command)
    with where.blamed("env"):
        environment = _environment(given.env)
    with where.blamed("name" if given.name is not None else "command"):
        name = checked_name(given.name if given.name is not None else name_of(command))
    folder = path.parent / (given.cwd or ".")
    if not folder.is_dir():
        raise ValueError(where.error(f"there is no directory {folder}", "cwd"))
    with where.blamed("slo"):
        deadline_seconds = None if given.slo is None else deadline_of(given.slo)
        check_deadline(deadline_seconds)
    with where.blamed("slo_quantile"):
        check_quantile(given.slo_quantile)
    with where.blamed("slo_quantile", "latency_critical", "slo"):
        asked = given.slo_quantile != DEFAULT_QUANTILE
        check_serving(given.kind == "inference", given.slo is not None, asked, given.latency_critical)
    with where.blamed("iterations"):
        check_iterations(given.iterations)
    with where.blamed("memory"):
        memory_bytes = None if given.memory is None else memory_of(given.memory)
    with where.blamed("priority"):
        check_priority(given.priority)
    return JobCommand(
        name=name,
        command=command,
        kind=given.kind,
        directory=folder,
        environment=environment,
        priority=given.priority,
        deadline_seconds=deadline_seconds,
        deadline_quantile=given.slo_quantile,
        latency_critical=given.latency_critical,
        iterations=given.iterations,
        memory_bytes=memory_bytes,
    )


def _environment(given: Mapping[str, str | float | bool]) -> dict[str, str]:
    """Environment variables; ValueError when a process cannot be given one of them."""
    words = {key: _word(value) for key, value in given.items()}
    for key, value in words.items():
        if not key or "=" in key or "\0" in key + value:
            raise ValueError(f"{key!r} cannot be set: a variable has a name without =, and no zero bytes")
    return words


def _word(value: str | float | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def command_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """A command's words. `python` alone means the Python that runs neaptide, as another one may not have it."""
    try:
        words = shlex.split(given) if isinstance(given, str) else list(given)
    except ValueError as error:
        raise ValueError(f"{given!r} cannot be split into words: {str(error).lower()}") from None
    if any("\0" in word for word in words):
        raise ValueError("a command cannot hold a zero byte")
    if not words or not words[0]:
        raise ValueError("the command is empty; write it like python train.py")
    return (sys.executable if words[0] in _PYTHON else words[0], *words[1:])


def name_of(command: Sequence[str]) -> str:
    """The name of a job that was given none: its script's, or else its program's."""
    script = next((word for word in command[1:] if word.endswith(".py")), None)
    if script is None and "-m" in command[:-1]:
        script = command[list(command).index("-m") + 1]
    return usable_name(Path(script or command[0]).name.removesuffix(".py"))


def deadline_of(given: Time) -> float:
    """An SLO in seconds."""
    if seconds := seconds_of(given):
        return seconds
    raise ValueError("the SLO must be positive; write it like 50ms")
