"""When jobs and requests come: at random with a seed, at a fixed rate, or from a CSV file.

Nothing here knows a job's trace. A `JobWanted` names a model, a batch size and how long the job would take alone;
the caller, who has the models, turns that into a trace and a number of iterations.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CSV_COLUMNS = ("model", "batch", "arrives_seconds", "solo_seconds")


@dataclass(frozen=True, slots=True)
class JobWanted:
    """A job to be submitted, before its trace is known."""

    model: str
    batch: int
    arrives_ns: int
    solo_seconds: float  # how long the whole job would take alone


def poisson(per_second: float, seed: int, *, start_ns: int = 0) -> Iterator[int]:
    """The times of a Poisson process with this rate, without end."""
    _check_rate(per_second)
    chance = random.Random(seed)
    at = start_ns / 1e9
    while True:
        at += chance.expovariate(per_second)
        yield round(at * 1e9)


def regular_requests(per_second: float, seconds: float, *, start_ns: int = 0) -> tuple[int, ...]:
    """The times of requests that come at equal distances for `seconds`, the first at `start_ns`."""
    _check_rate(per_second)
    return tuple(start_ns + round(i * 1e9 / per_second) for i in range(math.ceil(seconds * per_second)))


def parse_job_list(text: str) -> tuple[JobWanted, ...]:
    """Jobs from CSV text with a header and the columns model, batch, arrives_seconds, solo_seconds, in any order."""
    rows = csv.reader(text.splitlines())
    header = [name.strip() for name in next(rows, [])]
    if sorted(header) != sorted(CSV_COLUMNS):
        raise ValueError(f"line 1: the columns must be {', '.join(CSV_COLUMNS)}, not {', '.join(header) or 'none'}")
    jobs = [
        _parse_row(dict(zip(header, _fields(row, rows.line_num), strict=True)), rows.line_num) for row in rows if row
    ]
    if not jobs:
        raise ValueError("line 2: there is no job after the header")
    return tuple(sorted(jobs, key=lambda job: job.arrives_ns))


def _fields(row: Sequence[str], line: int) -> list[str]:
    if len(row) != len(CSV_COLUMNS):
        raise ValueError(f"line {line}: {len(row)} fields where {len(CSV_COLUMNS)} are needed")
    return [field.strip() for field in row]


def _parse_row(row: dict[str, str], line: int) -> JobWanted:
    if not row["model"]:
        raise ValueError(f"line {line}: the model has no name")
    batch = _number(row, "batch", line)
    if batch != int(batch) or batch < 1:
        raise ValueError(f"line {line}: batch must be a whole number from 1 on, not {row['batch']!r}")
    arrives, solo = _number(row, "arrives_seconds", line), _number(row, "solo_seconds", line)
    if arrives < 0:
        raise ValueError(f"line {line}: arrives_seconds must not be negative, not {row['arrives_seconds']!r}")
    if solo <= 0:
        raise ValueError(f"line {line}: solo_seconds must be positive, not {row['solo_seconds']!r}")
    return JobWanted(row["model"], int(batch), round(arrives * 1e9), solo)


def _number(row: dict[str, str], column: str, line: int) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"line {line}: {column} must be a number, not {row[column]!r}")
    return value


def _check_rate(per_second: float) -> None:
    if not 0 < per_second < math.inf:
        raise ValueError(f"a rate must be positive and finite, not {per_second} per second")
