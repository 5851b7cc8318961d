"""The problem that Checkmate solves (MLSys'20, section 4): what to hold and what to run again, stage by stage.

Stage t runs node t for the first time. `hold[t, v]` (the paper's S) says that value v is held when stage t begins;
`run[t, k]` (the paper's R) says that node k runs in stage t. Nodes run in their order within a stage, and both matrices
are lower-triangular. Within a stage, a value is released after its last reader unless the next stage holds it (the
paper's FREE). A node may have several values, so that some results of a coarse node can be kept and others released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neaptide.core.traces.columns import Flags, Floats, Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Nodes in the order of their first run, and the values that they make and read."""

    seconds: Floats  # of each node
    scratch_bytes: Integers  # of each node, beside its values, during a rerun
    base_bytes: Integers  # held during each node's first run, whatever is decided
    idle_bytes: Integers  # held just before that, during reruns of other nodes, whatever is decided
    repeatable: Flags  # whether a node may run again
    value_bytes: Integers
    producer: Integers  # the node of each value
    inputs: tuple[tuple[int, ...], ...]  # the values that each node reads
    last_held: Integers | None = None  # the last stage at whose beginning each value may be held; None: no limit

    def __len__(self) -> int:
        return self.seconds.size

    @cached_property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        made: list[list[int]] = [[] for _ in range(len(self))]
        for value, node in enumerate(self.producer.tolist()):
            made[node].append(value)
        return tuple(map(tuple, made))

    @cached_property
    def producer_list(self) -> list[int]:
        return [int(node) for node in self.producer]

    @cached_property
    def size_list(self) -> list[int]:
        return [int(size) for size in self.value_bytes]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that read each value."""
        found: list[list[int]] = [[] for _ in range(self.producer.size)]
        for node, values in enumerate(self.inputs):
            for value in values:
                found[value].append(node)
        return tuple(map(tuple, found))

    @cached_property
    def wanted_until(self) -> Integers:
        """The last stage in which a node may need each value: the first run of a reader, or a rerun that is needed."""
        until = np.full(self.producer.size, -1, dtype=np.int64)
        for node in range(len(self) - 1, -1, -1):
            made = self.outputs[node]
            again = max((int(until[value]) for value in made), default=-1) if self.repeatable[node] else -1
            for value in self.inputs[node]:
                until[value] = max(until[value], node, again)
        return until

    @cached_property
    def held_until(self) -> Integers:
        """The last stage at whose beginning each value may be held and may be needed."""
        return self.wanted_until if self.last_held is None else np.minimum(self.wanted_until, self.last_held)

    def nodes_of(self, stage: int) -> list[int]:
        """The nodes that may run in a stage: its own, and earlier ones with a value that may still be needed."""
        return [
            node
            for node in range(stage)
            if self.repeatable[node] and any(self.wanted_until[value] >= stage for value in self.outputs[node])
        ] + [stage]

    def values_of(self, stage: int) -> list[int]:
        """The values that may be held when a stage begins."""
        return np.flatnonzero((self.producer < stage) & (self.held_until >= stage)).tolist()


def single_value_graph(seconds: Floats, value_bytes: Integers, inputs: tuple[tuple[int, ...], ...]) -> Graph:
    """A graph whose nodes have one value each, with the node's number, as in the paper."""
    nodes = seconds.size
    return Graph(
        seconds=seconds,
        scratch_bytes=np.zeros(nodes, dtype=np.int64),
        base_bytes=np.zeros(nodes, dtype=np.int64),
        idle_bytes=np.zeros(nodes, dtype=np.int64),
        repeatable=np.ones(nodes, dtype=np.bool_),
        value_bytes=value_bytes,
        producer=np.arange(nodes),
        inputs=inputs,
    )


@dataclass(frozen=True, eq=False)
class Stages:
    """A schedule: what runs and what is held in each stage."""

    run: Flags  # stages x nodes
    hold: Flags  # stages x values

    def seconds(self, graph: Graph) -> float:
        return float((self.run @ graph.seconds).sum())


def hold_everything(graph: Graph) -> Stages:
    """Each node runs once, and a value is held until its last reader has run."""
    nodes = len(graph)
    hold = np.zeros((nodes, graph.producer.size), dtype=np.bool_)
    for value, readers in enumerate(graph.readers):
        hold[graph.producer[value] + 1 : max(readers, default=-1) + 1, value] = True
    return Stages(np.eye(nodes, dtype=np.bool_), hold)


def runs_in(graph: Graph, hold: Flags, stage: int) -> list[int]:
    """The fewest nodes, in order, that must run in a stage so that `hold` is true before and after it."""
    there = hold[stage]
    queue = [stage]
    if stage + 1 < len(graph):
        queue += graph.producer[hold[stage + 1] & ~there].tolist()
    running = set(queue)
    while queue:
        for value in graph.inputs[queue.pop()]:
            if not there[value] and (node := graph.producer_list[value]) not in running:
                running.add(node)
                queue.append(node)
    return sorted(running)


def peak_in(graph: Graph, hold: Flags, running: Sequence[int], stage: int) -> int:
    """The most bytes held in a stage that runs some nodes; ValueError if a node would read an absent value."""
    there: set[int] = set(hold[stage].nonzero()[0].tolist())
    keep: set[int] = set(hold[stage + 1].nonzero()[0].tolist()) if stage + 1 < len(graph) else set()
    size = graph.size_list
    last = {value: node for node in running for value in graph.inputs[node]}
    held = sum(size[value] for value in there)
    most = held + int(graph.idle_bytes[stage])
    for node in running:
        for value in graph.outputs[node]:
            if value not in there:
                there.add(value)
                held += size[value]
        if node == stage:
            most = max(most, held + int(graph.base_bytes[stage]))
        else:
            most = max(most, held + int(graph.idle_bytes[stage]) + int(graph.scratch_bytes[node]))
        for value in {*graph.inputs[node], *graph.outputs[node]}:
            if value not in there:
                raise ValueError(f"node {node} reads value {value} in stage {stage}, which is absent")
            if last.get(value, node) <= node and value not in keep:
                there.discard(value)
                held -= size[value]
    if keep - there:
        raise ValueError(f"value {min(keep - there)} is held after stage {stage}, where it is absent")
    return most


def least_runs(graph: Graph, hold: Flags) -> Stages:
    """The schedule with the fewest runs that makes `hold` possible (the second phase of Checkmate's rounding).

    Values of nodes that cannot run again are held while they may be needed. Values that no node needs are released.
    """
    nodes = len(graph)
    hold = hold.copy()
    for value, node in enumerate(graph.producer.tolist()):
        hold[: node + 1, value] = False
        hold[graph.held_until[value] + 1 :, value] = False
        if not graph.repeatable[node]:
            hold[node + 1 : graph.held_until[value] + 1, value] = True
    while True:
        run = np.zeros((nodes, nodes), dtype=np.bool_)
        for stage in range(nodes):
            run[stage, runs_in(graph, hold, stage)] = True
        if not _release_unneeded(graph, run, hold):
            return Stages(run, hold)


def _release_unneeded(graph: Graph, run: Flags, hold: Flags) -> bool:
    """Release values that a stage neither reads nor hands on, or that it recomputes; return whether there were any."""
    nodes, before = len(graph), int(hold.sum())
    for stage in range(nodes - 1, -1, -1):
        wanted = hold[stage + 1].copy() if stage + 1 < nodes else np.zeros(hold.shape[1], dtype=np.bool_)
        for node in np.flatnonzero(run[stage]).tolist():
            wanted[list(graph.inputs[node])] = True
        hold[stage] &= wanted & ~run[stage, graph.producer]
    return int(hold.sum()) < before


def stage_peaks(graph: Graph, answer: Stages) -> Integers:
    """The most bytes held in each stage; ValueError if a node would read an absent value."""
    rows = (np.flatnonzero(row).tolist() for row in answer.run)
    return np.array([peak_in(graph, answer.hold, row, stage) for stage, row in enumerate(rows)], dtype=np.int64)
