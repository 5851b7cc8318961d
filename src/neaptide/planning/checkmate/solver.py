"""Checkmate's schedules: the optimum by HiGHS, and the approximation by rounding the linear program."""

from __future__ import annotations

from itertools import pairwise

import highspy
import numpy as np

from neaptide.core.traces.columns import Flags, Floats
from neaptide.planning.checkmate.integer_program import IntegerProgram
from neaptide.planning.checkmate.problem import (
    Graph,
    Stages,
    hold_everything,
    least_runs,
    peak_in,
    runs_in,
    stage_peaks,
)

_THRESHOLDS = tuple(step / 20 for step in range(1, 20))
_PASSES = 4
_NOISE, _NOISY_ORDERS = 0.5, 20
_STARTS = 10
_SHARES = (0.9, 1.0)  # of the budget, for the linear program: rounding needs some room


NODES = 500  # of the solver's search tree: a limit in seconds would give other answers on a busy machine


def _solved(
    program: IntegerProgram, whole: bool, nodes: int = NODES, start: Stages | None = None
) -> tuple[Floats | None, bool]:
    """The best solution found, if any, and whether it is proven to be optimal."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 2)
    solver.setOptionValue("mip_max_nodes", nodes)
    if not whole:  # a point inside the optimal face rounds as well as a corner and is found much sooner
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("run_crossover", "off")
    solver.passModel(program.model(whole))
    if start is not None:
        values = [(column, float(start.run[key])) for key, column in program.run.items()]
        values += [(column, float(start.hold[key])) for key, column in program.hold.items()]
        columns, ones = zip(*values, strict=True)
        solver.setSolution(len(columns), np.array(columns, dtype=np.int32), np.array(ones))
    solver.run()
    status = highspy.HighsModelStatus
    proven = solver.getModelStatus() in (status.kOptimal, status.kInfeasible)
    info = solver.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return (np.array(solver.getSolution().col_value) if found else None), proven


def _too_small(graph: Graph, budget_bytes: int) -> bool:
    return bool((np.maximum(graph.base_bytes, graph.idle_bytes) > budget_bytes).any())


def _fits(graph: Graph, schedule: Stages, budget_bytes: int) -> bool:
    return bool((stage_peaks(graph, schedule) <= budget_bytes).all())


def optimal(graph: Graph, budget_bytes: int) -> tuple[Stages | None, bool]:
    """The cheapest schedule within the budget, and whether it is proven to be; None if none is found.

    The search ends after NODES nodes of its tree, so the answer does not depend on the machine or its load.
    """
    everything = hold_everything(graph)
    if _fits(graph, everything, budget_bytes):
        return everything, True
    if _too_small(graph, budget_bytes):
        return None, True
    program = IntegerProgram(graph, budget_bytes)
    solution, proven = _solved(program, True, NODES, _start(graph, budget_bytes))
    if solution is None:
        return None, proven
    found = least_runs(graph, program.hold_shares(solution) > 0.5)
    return (found, proven) if _fits(graph, found, budget_bytes) else (None, False)


def _start(graph: Graph, budget_bytes: int) -> Stages | None:
    """A schedule within the budget, found without a solver: the best of a few orders of filling."""
    nothing = least_runs(graph, np.zeros((len(graph), graph.producer.size), dtype=np.bool_))
    if not _fits(graph, nothing, budget_bytes):
        return None
    random = np.random.default_rng(0)
    orders = [np.zeros(nothing.hold.shape), *(random.random(nothing.hold.shape) for _ in range(_STARTS))]
    return min((_filled(graph, budget_bytes, nothing, order) for order in orders), key=lambda each: each.seconds(graph))


def rounded(graph: Graph, budget_bytes: int) -> Stages | None:
    """Checkmate's approximation: solve the linear program, round `hold`, and run as little as that needs.

    The result is the cheapest schedule within the budget over all rounding thresholds; None if there is none. Rounding
    leaves room, which is filled in the order of the linear program's shares, and of these shares with some noise.
    """
    everything = hold_everything(graph)
    if _fits(graph, everything, budget_bytes):
        return everything
    if _too_small(graph, budget_bytes):
        return None
    found = [] if (start := _start(graph, budget_bytes)) is None else [start]
    random = np.random.default_rng(0)
    nothing = least_runs(graph, np.zeros_like(everything.hold))
    for share in _SHARES:
        program = IntegerProgram(graph, budget_bytes, share)
        solution, _ = _solved(program, False)
        if solution is None:
            continue
        shares = program.hold_shares(solution)
        answers = [nothing, *(least_runs(graph, shares > threshold) for threshold in _THRESHOLDS)]
        fitting = [answer for answer in answers if _fits(graph, answer, budget_bytes)]
        starts = sorted(fitting, key=lambda answer: answer.seconds(graph))[:1] + fitting[:1]
        found += [_filled(graph, budget_bytes, start, shares) for start in starts]
        for _ in range(_NOISY_ORDERS if fitting else 0):
            noisy = shares + _NOISE * random.random(shares.shape[1])
            found.append(_filled(graph, budget_bytes, fitting[0], noisy))
    return min(found, key=lambda answer: answer.seconds(graph), default=None)


def _filled(graph: Graph, budget_bytes: int, answer: Stages, shares: Floats) -> Stages:
    """The schedule with more values held while that fits and saves time; values with large `shares` come first."""
    pauses = []  # a value is needed at both ends of a pause and not between
    for value, readers in enumerate(graph.readers):
        for start, end in pairwise((int(graph.producer[value]), *readers)):
            liked = float(shares[start + 1 : end + 1, value].mean())
            pauses.append((-liked, end - start, value, start, end))
    hold = answer.hold.copy()
    rows = [np.flatnonzero(row).tolist() for row in answer.run]
    for _ in range(_PASSES):
        changed = False
        for _, _, value, start, end in sorted(pauses):
            node = int(graph.producer[value])
            begins = [start, *(stage for stage in range(start + 1, end) if node in rows[stage])]
            for begin in begins if end <= graph.held_until[value] else ():
                if hold[begin + 1 : end + 1, value].all():
                    break
                if _hold_longer(graph, budget_bytes, hold, rows, value, begin, end):
                    changed = True
                    break
        if not changed:
            break
    return least_runs(graph, hold)


def _hold_longer(
    graph: Graph, budget_bytes: int, hold: Flags, rows: list[list[int]], value: int, begin: int, end: int
) -> bool:
    """Hold a value from stage `begin` to stage `end` if that fits and saves time; return whether it does."""
    before = hold[begin + 1 : end + 1, value].copy()
    hold[begin + 1 : end + 1, value] = True
    tried = [runs_in(graph, hold, stage) for stage in range(begin, end + 1)]
    saved = sum(graph.seconds[row].sum() for row in rows[begin : end + 1]) - sum(
        graph.seconds[row].sum() for row in tried
    )
    if saved > 0 and all(peak_in(graph, hold, row, begin + at) <= budget_bytes for at, row in enumerate(tried)):
        rows[begin : end + 1] = tried
        return True
    hold[begin + 1 : end + 1, value] = before
    return False
