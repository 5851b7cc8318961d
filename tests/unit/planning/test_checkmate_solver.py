"""Checkmate's program on graphs whose best schedule is known by exhaustive search."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from neaptide.planning.checkmate.problem import (
    Graph,
    Stages,
    hold_everything,
    least_runs,
    stage_peaks,
)
from neaptide.planning.checkmate.solver import optimal, rounded
from neaptide.reproductions.papers.checkmate import even_chain


def uneven_chain(layers: int, seed: int) -> Graph:
    """The chain with other seconds and sizes, from 1 to 8."""
    graph, random = even_chain(layers), np.random.default_rng(seed)
    seconds, sizes = (random.integers(1, 9, len(graph)) for _ in range(2))
    return replace(graph, seconds=seconds.astype(np.float64), value_bytes=sizes)


def best_seconds(graph: Graph, budget_bytes: int) -> float | None:
    """The least seconds over all schedules, by exhaustive search; nodes run in rising order within a stage."""
    nodes, tie = len(graph), count()
    bytes_of = graph.value_bytes.tolist()
    queue: list[tuple[float, int, int, int, frozenset[int]]] = [(0.0, next(tie), 0, -1, frozenset())]
    seen = set()
    while queue:
        seconds, _, stage, last, there = heapq.heappop(queue)
        if stage == nodes:
            return seconds
        if (stage, last, there) in seen:
            continue
        seen.add((stage, last, there))
        for value in there:
            heapq.heappush(queue, (seconds, next(tie), stage, last, there - {value}))
        for node in range(last + 1, stage + 1):
            made = there | {node}
            allowed = node == stage or graph.repeatable[node]
            if allowed and set(graph.inputs[node]) <= there and sum(bytes_of[value] for value in made) <= budget_bytes:
                where = (stage + 1, -1) if node == stage else (stage, node)
                heapq.heappush(queue, (seconds + float(graph.seconds[node]), next(tie), *where, made))
    return None


def test_if_every_value_fits_no_node_runs_twice() -> None:
    graph = even_chain(5)
    everything = hold_everything(graph)
    peak = int(stage_peaks(graph, everything).max())
    found, proven = optimal(graph, peak)
    assert proven
    assert found is not None
    assert found.seconds(graph) == graph.seconds.sum()


@pytest.mark.parametrize("budget", [9, 12, 13, 16, 17, 20])
def test_the_optimum_of_an_even_chain_is_that_of_an_exhaustive_search(budget: int) -> None:
    graph = even_chain(4)
    found, proven = optimal(graph, budget)
    best = best_seconds(graph, budget)
    assert proven
    assert (None if found is None else found.seconds(graph)) == best
    if found is not None:
        assert stage_peaks(graph, found).max() <= budget


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_of_an_uneven_chain_is_that_of_an_exhaustive_search(seed: int) -> None:
    graph = uneven_chain(4, seed)
    most = int(stage_peaks(graph, hold_everything(graph)).max())
    for share in (0.6, 0.75, 0.9):
        budget = int(share * most)
        found, proven = optimal(graph, budget)
        assert proven
        assert (None if found is None else found.seconds(graph)) == best_seconds(graph, budget)


@pytest.mark.parametrize("seed", range(3))
def test_rounding_keeps_the_budget_and_costs_at_most_six_percent_more_than_the_optimum(seed: int) -> None:
    graph = uneven_chain(8, seed)
    budget = int(0.7 * stage_peaks(graph, hold_everything(graph)).max())
    near, (best, proven) = rounded(graph, budget), optimal(graph, budget)
    assert proven
    assert near is not None
    assert best is not None
    assert stage_peaks(graph, near).max() <= budget
    assert best.seconds(graph) <= near.seconds(graph) <= 1.06 * best.seconds(graph)


def test_a_budget_below_what_one_node_needs_has_no_schedule() -> None:
    assert optimal(even_chain(4), 8) == (None, True)
    assert rounded(even_chain(4), 8) is None


def test_the_value_of_a_node_that_cannot_run_again_is_held_to_its_last_reader() -> None:
    graph = even_chain(3)
    graph = replace(graph, repeatable=np.array([False, *[True] * 6]))
    schedule = least_runs(graph, np.zeros((7, 7), dtype=np.bool_))
    assert schedule.hold[:, 0].tolist() == [False, True, True, True, True, True, True]
    assert schedule.run[:, 0].sum() == 1


def test_a_schedule_that_reads_an_absent_value_is_refused() -> None:
    graph = even_chain(2)
    nothing_held = Stages(np.eye(5, dtype=np.bool_), np.zeros((5, 5), dtype=np.bool_))
    with pytest.raises(ValueError, match="node 1 reads value 0 in stage 1"):
        stage_peaks(graph, nothing_held)


def test_a_node_with_two_values_may_keep_one_of_them() -> None:
    # Node 0 makes a small value that node 1 reads at once and a large one that only node 3 reads.
    graph = Graph(
        seconds=np.ones(4),
        scratch_bytes=np.zeros(4, dtype=np.int64),
        base_bytes=np.array([0, 0, 6, 0]),
        idle_bytes=np.zeros(4, dtype=np.int64),
        repeatable=np.array([True, True, True, False]),
        value_bytes=np.array([1, 8, 1, 1]),
        producer=np.array([0, 0, 1, 2]),
        inputs=((), (0,), (2,), (1, 3)),
    )
    found, proven = optimal(graph, 10)
    assert proven
    assert found is not None
    assert not found.hold[2, 1]
    assert found.run[:, 0].sum() == 2
