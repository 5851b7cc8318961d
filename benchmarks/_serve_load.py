"""An open-loop load of requests: each is sent at its scheduled time, whether earlier ones were answered or not.

A latency counts from the scheduled time, so that a request which waits in the generator itself is not forgotten.
"""

from __future__ import annotations

import asyncio
import csv
import math
import random
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from time import monotonic

MOST_REQUESTS = 100_000
_MOST_CONNECTIONS = 256
_QUESTION = b"GET /predict HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_LENGTH = b"content-length:"
_FOREVER = 1e6  # seconds: a request that was not answered
_DIGITS = 128  # buckets per power of two: a latency is known to better than one per cent


class Tail:
    """Latencies in buckets whose width grows with the value, as HdrHistogram keeps them; a sum of two is exact."""

    def __init__(self, seconds: Sequence[float] = ()) -> None:
        self._counts: dict[int, int] = {}
        for each in seconds:
            bucket = math.floor(_DIGITS * math.log2(min(max(each, 1e-6), _FOREVER)))
            self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def __add__(self, other: Tail) -> Tail:
        both = Tail()
        both._counts = dict(self._counts)
        for bucket, count in other._counts.items():
            both._counts[bucket] = both._counts.get(bucket, 0) + count
        return both

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    def percentile(self, share: float) -> float:
        """The upper edge of the bucket that holds this share of the latencies, in seconds; NaN if there are none."""
        left = math.ceil(share * self.count)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return float(2 ** ((bucket + 1) / _DIGITS))
        return math.nan


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Arrivals of independent users: so many per second on average."""
    chance, at, times = random.Random(seed), 0.0, list[float]()
    while (at := at + chance.expovariate(rate)) < seconds and len(times) < MOST_REQUESTS:
        times.append(at)
    return times


def replayed(path: Path, rate: float, seconds: float) -> list[float]:
    """The arrivals of a trace with a column TIMESTAMP, as Azure publishes them, stretched to this mean rate."""
    with path.open(newline="") as file:
        rows = [datetime.fromisoformat(row["TIMESTAMP"]) for row in islice(csv.DictReader(file), MOST_REQUESTS)]
    if len(rows) < 2 or rows[-1] <= rows[0]:
        raise ValueError(f"{path} has too few requests to replay")
    since = [(row - rows[0]).total_seconds() for row in rows]
    stretch = (len(rows) - 1) / since[-1] / rate
    return [stretch * each for each in since if stretch * each < seconds]


def burst(rate: float, seconds: float, at: float, lasts: float, times: float, seed: int) -> list[float]:
    """Poisson arrivals whose rate is so many times as high for a while."""
    more = [at + each for each in poisson((times - 1) * rate, lasts, seed + 1)]
    return sorted([*poisson(rate, seconds, seed), *more])


class Client:
    """Sends requests to a server of this machine over as many connections as are needed at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._places = asyncio.Semaphore(_MOST_CONNECTIONS)

    async def ask(self) -> None:
        """One request and its answer; RuntimeError if it was not served."""
        async with self._places:
            if self._free:
                reader, writer = self._free.pop()
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(_QUESTION)
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH))
                await reader.readexactly(int(length[len(_LENGTH) :]))
            except BaseException:
                writer.close()
                raise
            self._free.append((reader, writer))
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(f"the server said {head[:60]!r}")

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()


async def offer(port: int, times: Sequence[float], patience_seconds: float) -> list[tuple[float, float]]:
    """Send a request at each time; returns when each was due and how long after that it was answered.

    A request that was not answered in time counts as infinitely late.
    """
    client, seen, began = Client(port), list[tuple[float, float]](), monotonic()

    async def one(due: float) -> None:
        try:
            await client.ask()
            seen.append((due, monotonic() - began - due))
        except (OSError, RuntimeError, asyncio.IncompleteReadError):
            seen.append((due, math.inf))

    tasks = list[asyncio.Task[None]]()
    for due in times:
        await asyncio.sleep(max(0.0, began + due - monotonic()))
        tasks.append(asyncio.create_task(one(due)))
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=patience_seconds)
        for task in late:
            task.cancel()
        seen += [(math.nan, math.inf) for _ in late]
    client.close()
    return seen


async def closed(port: int, count: int) -> list[float]:
    """How long each of so many requests takes that are sent one after the other."""
    client, took = Client(port), list[float]()
    for _ in range(count):
        began = monotonic()
        await client.ask()
        took.append(monotonic() - began)
    client.close()
    return took
