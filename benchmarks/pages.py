"""What handing memory over costs on a GPU: driver calls of an iteration, for three ways to keep pages.

Two jobs train the same network half an iteration apart, under a budget of 0.65 of the sum of their peaks. Their leases
are those of estimated traces, and a driver call takes as long as others measured it on an A100, whatever the size of
the page. A job uses its addresses as a stack, as its arena nearly does.

The three ways are models. With NEAPTIDE_DEVICE=cuda the way that ships, kept mappings, is also measured: two processes
take and give the same chunks through the allocator, and count the driver calls that it makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from neaptide import estimate
from neaptide.core.device import find_device
from neaptide.core.traces.leases import Leases
from neaptide.core.traces.trace import Trace
from neaptide.devices import default_kind
from neaptide.models import build
from neaptide.reporting.terminal.bench import Figure

NETWORKS = (("bert-large", 32), ("resnet152", 64), ("vgg16", 64), ("unet", 8))
DEVICE = find_device("A100-40GB")
CHUNKS = (2 << 20, 8 << 20, 32 << 20)
SHARE = 0.65
ITERATIONS = 6  # of which the last is counted: by then what is kept is where it is needed
MEASURED_ITERATIONS = 12  # an arena is no stack, so its mappings take longer to come to rest
# kvcached's figures for an A100 with pages of 2 MiB: to make a page, to map it and allow access, to unmap it.
CREATE_US, MAP_US, UNMAP_US = 193.0, 1.5 + 36.0, 26.0


@dataclass(slots=True)
class Calls:
    """Driver calls of one iteration of both jobs."""

    created: int = 0
    mapped: int = 0
    unmapped: int = 0

    @property
    def count(self) -> int:
        return self.created + self.mapped + self.unmapped

    @property
    def seconds(self) -> float:
        return (self.created * CREATE_US + self.mapped * MAP_US + self.unmapped * UNMAP_US) * 1e-6


@dataclass(slots=True)
class KeptMappings:
    """A pool of pages whose mappings stay when a page is given back, until another page is needed at the address."""

    free: list[int]
    at: dict[tuple[int, int], int] = field(default_factory=dict)  # what a job has mapped at an address

    def take(self, job: int, address: int, calls: Calls) -> int:
        kept = self.at.get((job, address))
        if kept is not None and kept in self.free:
            self.free.remove(kept)
            return kept
        if kept is not None:
            calls.unmapped += 1
        elsewhere = set(self.at.values())
        # A page that nobody has mapped anywhere spoils no mapping; else the one that was given back longest ago.
        page = next((page for page in self.free if page not in elsewhere), self.free[0])
        self.free.remove(page)
        self.at[job, address] = page
        calls.mapped += 1
        return page


def figures() -> Iterator[Figure]:
    """One row for each network, page size and way."""
    for name, batch in NETWORKS:
        trace = estimate(lambda name=name, batch=batch: build(name, batch).step, DEVICE, name=name, batch=batch)
        for chunk_bytes in CHUNKS:
            changes = _changes(trace, chunk_bytes)
            yield from _ways(f"{name} twice, {chunk_bytes >> 20} MiB", changes, trace.seconds)
        if default_kind().name == "cuda":
            yield from _measured(name, trace)


def _changes(trace: Trace, chunk_bytes: int) -> list[tuple[int, int]]:
    """Who has how many chunks next, in the order of time, for one iteration of two jobs that are half of one apart."""
    levels = -(-Leases.of(trace).levels // chunk_bytes)
    half = int(np.searchsorted(np.cumsum(trace.ops.seconds), trace.seconds / 2))
    shifted = np.concatenate((levels[half:], levels[:half]))
    return [(job, int(level)) for pair in zip(levels, shifted, strict=True) for job, level in enumerate(pair)]


def _ways(title: str, changes: list[tuple[int, int]], seconds: float) -> Iterator[Figure]:
    remade, remapped, kept = _count(changes)
    for way, calls in (("pages made and freed", remade), ("a pool, mapped anew", remapped), ("mappings kept", kept)):
        yield Figure(f"{title}: {way}, driver calls of an iteration", calls.count / 2, "")
        goal = "<= 2" if way == "mappings kept" else ""
        yield Figure(f"{title}: {way}, share of an iteration", 100 * calls.seconds / 2 / seconds, "%", goal)


def _measured(name: str, trace: Trace) -> Iterator[Figure]:
    """The calls that the allocator makes in one iteration, when its mappings have come to rest."""
    kind = default_kind()
    chunk_bytes = kind.chunk_bytes()
    changes = _changes(trace, chunk_bytes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board"
        board = kind.create_board(path, kind.default_budget_bytes(), kind.board_settings_type())
        command = [sys.executable, str(Path(__file__).with_name("_pages_job.py")), str(path), str(chunk_bytes)]
        jobs = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for _ in range(2)
        ]
        for process in jobs:  # their contexts, and the chunk that each keeps at hand
            _say(process, "1"), _say(process, "0")
        board.set_capacity(_pool_pages(changes) * chunk_bytes + board.snapshot().used_bytes)
        levels = [0, 0]
        for _ in range(MEASURED_ITERATIONS):
            before = [_say(process, "calls") for process in jobs]
            for job, level in changes:
                if level != levels[job]:
                    _say(jobs[job], str(level))
                    levels[job] = level
        after = [_say(process, "calls") for process in jobs]
        for process in jobs:
            process.communicate()
        board.close()
    title = f"{name} twice, {chunk_bytes >> 20} MiB: mappings kept, measured"
    spent = [{call: last[call] - first[call] for call in last} for first, last in zip(before, after, strict=True)]
    calls = Calls(*(sum(each[call] for each in spent) for call in ("made", "mapped", "unmapped")))
    yield Figure(f"{title}, driver calls of an iteration", calls.count / 2, "")
    yield Figure(f"{title}, share of an iteration", 100 * calls.seconds / 2 / trace.seconds, "%", "<= 2")
    yield Figure(f"{title}, pages taken without a call", sum(each["reused"] for each in spent) / 2, "")


def _say(job: subprocess.Popen[str], line: str) -> dict[str, int]:
    assert job.stdin is not None
    assert job.stdout is not None
    print(line, file=job.stdin, flush=True)
    answer = job.stdout.readline()
    return dict(json.loads(answer)) if line == "calls" else {}


def _pool_pages(changes: list[tuple[int, int]]) -> int:
    """As many as 0.65 of the sum of the peaks, and as many as both jobs need at once."""
    peaks = [max(level for job, level in changes if job == each) for each in range(2)]
    together = max(sum(changes[place + job][1] for job in range(2)) for place in range(0, len(changes), 2))
    return max(int(SHARE * sum(peaks)), together)


def _count(changes: list[tuple[int, int]]) -> tuple[Calls, Calls, Calls]:
    pool = KeptMappings(list(range(_pool_pages(changes))))
    stacks: list[list[int]] = [[], []]  # the pages of each job, by address
    for _ in range(ITERATIONS):
        remade, remapped, kept = Calls(), Calls(), Calls()
        for job, level in changes:
            stack = stacks[job]
            taken, given = max(level - len(stack), 0), max(len(stack) - level, 0)
            remade.created += taken
            remade.mapped += taken
            remade.unmapped += given
            remapped.mapped += taken
            remapped.unmapped += given
            for _ in range(given):
                pool.free.append(stack.pop())
            for _ in range(taken):
                stack.append(pool.take(job, len(stack), kept))
    return remade, remapped, kept
