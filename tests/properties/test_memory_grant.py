"""The rule that grants memory, against all interleavings of small jobs: every iteration ends, and no job is starved."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.native_library import RULES, NativeLibrary

FLAGS = ("-O1", "-std=c++17", "-fPIC", "-shared", "-Wall")
GRANTED, FULL, RESERVED = range(3)


@cache
def library() -> ctypes.CDLL:
    native = NativeLibrary("memory-grant", "the memory grant", (Path(__file__).parent / "native", RULES), FLAGS)
    return ctypes.CDLL(str(native.built()))


def decide(bytes_: int, iterates: bool, reserved: int, older: Sequence[tuple[int, int]], used: int, budget: int) -> int:
    return _decide(bytes_, iterates, reserved, tuple(older), used, budget)


@cache
def _decide(
    bytes_: int, iterates: bool, reserved: int, older: tuple[tuple[int, int], ...], used: int, budget: int
) -> int:
    long, numbers = ctypes.c_int64, ctypes.c_int64 * len(older)
    due, returns = numbers(*(each[0] for each in older)), numbers(*(each[1] for each in older))
    answer = library().decide(
        long(bytes_), int(iterates), long(reserved), due, returns, long(len(older)), long(used), long(budget)
    )
    return int(answer)


@dataclass(frozen=True)
class Worker:
    """A job that runs iterations: it holds `rest` between them and `rest + levels[op]` while an op runs."""

    rest: int
    levels: tuple[int, ...]


@dataclass(frozen=True)
class State:
    """How far each worker and each job outside iterations is. A worker's op is -1 before its iteration begins."""

    ops: tuple[int, ...]
    left: tuple[int, ...]  # iterations that each worker has still to begin
    order: tuple[int, ...]  # workers inside an iteration, oldest first
    entered: frozenset[int] = frozenset()  # jobs outside iterations that have their bytes
    asked: tuple[int, ...] = ()  # jobs outside iterations that wait, in order
    before: frozenset[int] = frozenset()  # workers whose iteration began before the first of `asked` asked


class Model:
    """All states that some workers, and some jobs that come in, can reach under the rule."""

    def __init__(self, workers: Sequence[Worker], entering: Sequence[int], budget: int, iterations: int) -> None:
        self.workers, self.entering, self.budget = workers, entering, budget
        self.first = State((-1,) * len(workers), (iterations,) * len(workers), ())

    def held(self, state: State, worker: int, op: int | None = None) -> int:
        op = state.ops[worker] if op is None else op
        here = self.workers[worker]
        return here.rest + (here.levels[op] if op >= 0 else 0)

    def used(self, state: State) -> int:
        return sum(self.held(state, each) for each in range(len(self.workers))) + sum(
            self.entering[each] for each in state.entered
        )

    def claims(self, state: State, older: Sequence[int]) -> list[tuple[int, int]]:
        found = []
        for each in older:
            worker, held = self.workers[each], self.held(state, each)
            peak = worker.rest + max(worker.levels[max(state.ops[each], 0) :])
            found.append((peak - held, held - worker.rest))
        return found

    def moves(self, state: State) -> Iterator[State]:
        reserved = sum(self.entering[each] for each in state.asked)
        used = self.used(state)
        for worker in range(len(self.workers)):
            if worker in state.order:
                yield from self.steps(state, worker, reserved, used)
            elif state.left[worker]:
                yield replace(
                    state,
                    left=tuple(left - (each == worker) for each, left in enumerate(state.left)),
                    order=(*state.order, worker),
                )
        for job in range(len(self.entering)):
            if job not in state.entered and job not in state.asked:
                before = state.before if state.asked else frozenset(state.order)
                yield replace(state, asked=(*state.asked, job), before=before)
        for job in state.asked:
            if self.may_enter(state, job):
                asked = tuple(each for each in state.asked if each != job)
                yield replace(
                    state, entered=state.entered | {job}, asked=asked, before=frozenset(state.order if asked else ())
                )

    def steps(self, state: State, worker: int, reserved: int, used: int) -> Iterator[State]:
        op = state.ops[worker] + 1
        if op == len(self.workers[worker].levels):
            yield replace(
                state,
                ops=tuple(-1 if each == worker else at for each, at in enumerate(state.ops)),
                order=tuple(each for each in state.order if each != worker),
                before=state.before - {worker},
            )
            return
        more = self.held(state, worker, op) - self.held(state, worker)
        older = self.claims(state, state.order[: state.order.index(worker)])
        if more <= 0 or decide(more, True, reserved, older, used, self.budget) == GRANTED:
            yield replace(state, ops=tuple(op if each == worker else at for each, at in enumerate(state.ops)))

    def may_enter(self, state: State, job: int) -> bool:
        earlier = sum(self.entering[each] for each in state.asked[: state.asked.index(job)])
        older = self.claims(state, state.order)
        return decide(self.entering[job], False, earlier, older, self.used(state), self.budget) == GRANTED

    def reachable(self) -> Iterator[State]:
        found, waiting = {self.first}, [self.first]
        while waiting:
            state = waiting.pop()
            yield state
            for after in self.moves(state):
                if after not in found:
                    found.add(after)
                    waiting.append(after)

    def over(self, state: State) -> bool:
        return not state.order and not any(state.left) and len(state.entered) == len(self.entering)


@st.composite
def models(draw: st.DrawFn) -> Model:
    levels = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
    workers = draw(st.lists(st.builds(Worker, st.integers(0, 2), levels), min_size=1, max_size=3))
    entering = draw(st.lists(st.integers(1, 3), max_size=2))
    least = sum(each.rest for each in workers) + sum(entering) + max(max(each.levels) for each in workers)
    return Model(workers, entering, least + draw(st.integers(0, 2)), iterations=1 if len(workers) == 3 else 2)


class LaneModel(Model):
    """The same with lanes: worker n is in lane `lane_of[n]`."""

    def __init__(
        self,
        workers: Sequence[Worker],
        lane_of: Sequence[int],
        sizes: Sequence[int],
        entering: Sequence[int],
        budget: int,
        iterations: int,
    ) -> None:
        super().__init__(workers, entering, budget, iterations)
        self.lane_of, self.sizes = lane_of, sizes

    def lane_used(self, state: State, lane: int) -> int:
        members = [each for each in state.order if self.lane_of[each] == lane]
        return sum(self.held(state, each) - self.workers[each].rest for each in members)

    def unused(self, state: State, lane: int) -> int:
        return max(self.sizes[lane] - self.lane_used(state, lane), 0)

    def free(self, state: State, own_lane: int | None = None) -> int:
        """Bytes that are neither held nor another lane's."""
        others = [lane for lane in range(len(self.sizes)) if lane != own_lane]
        return self.budget - self.used(state) - sum(self.unused(state, lane) for lane in others)

    def granted(self, state: State, worker: int, more: int, reserved: int) -> bool:
        lane = self.lane_of[worker]
        ahead = state.order[: state.order.index(worker)]
        older = self.claims(state, [each for each in ahead if self.lane_of[each] == lane])
        numbers = ctypes.c_int64 * len(older)
        due, returns = numbers(*(each[0] for each in older)), numbers(*(each[1] for each in older))
        first = (more, 0 if not ahead else reserved)
        last = (len(older), self.lane_used(state, lane), self.sizes[lane], self.free(state, lane))
        answer = library().decide_in_lane(*map(ctypes.c_int64, first), due, returns, *map(ctypes.c_int64, last))
        return int(answer) == GRANTED

    def steps(self, state: State, worker: int, reserved: int, used: int) -> Iterator[State]:
        op = state.ops[worker] + 1
        more = 0 if op == len(self.workers[worker].levels) else self.held(state, worker, op) - self.held(state, worker)
        if more <= 0:
            yield from super().steps(state, worker, reserved, used)
        elif self.granted(state, worker, more, reserved):
            yield replace(state, ops=tuple(op if each == worker else at for each, at in enumerate(state.ops)))

    def may_enter(self, state: State, job: int) -> bool:
        earlier = sum(self.entering[each] for each in state.asked[: state.asked.index(job)])
        return decide(self.entering[job], False, earlier, [], 0, self.free(state)) == GRANTED


@st.composite
def lane_models(draw: st.DrawFn, overrun: int = 0) -> LaneModel:
    levels = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
    workers = draw(st.lists(st.builds(Worker, st.integers(0, 2), levels), min_size=2, max_size=3))
    lane_of = [draw(st.integers(0, 1)) for _ in workers]
    tops = [[max(each.levels) for each, of in zip(workers, lane_of, strict=True) if of == lane] for lane in (0, 1)]
    sizes = [max(max(top, default=1) - overrun, 1) for top in tops]
    entering = draw(st.lists(st.integers(1, 3), max_size=1))
    least = sum(each.rest for each in workers) + sum(entering) + sum(sizes)
    return LaneModel(workers, lane_of, sizes, entering, least + draw(st.integers(0, 1)), iterations=1)


@settings(max_examples=60)
@given(lane_models())
def test_every_iteration_that_fits_its_lane_gets_its_bytes_whatever_other_lanes_do(model: LaneModel) -> None:
    for state in model.reachable():
        assert model.used(state) <= model.budget
        assert model.over(state) or next(model.moves(state), None) is not None
        assert model.free(state) >= 0
        for lane in range(len(model.sizes)):
            members = [each for each in state.order if model.lane_of[each] == lane]
            if members:  # the oldest iteration of a lane is never refused
                assert next(model.steps(state, members[0], 99, model.used(state)), None) is not None


@settings(max_examples=60)
@given(lane_models(overrun=2))
def test_an_overrun_of_one_lane_takes_nothing_from_the_others(model: LaneModel) -> None:
    for state in model.reachable():
        assert model.free(state) >= 0


@settings(max_examples=60)
@given(models())
def test_no_interleaving_exceeds_the_budget_or_leaves_a_job_stuck_or_starved(model: Model) -> None:
    for state in model.reachable():
        assert model.used(state) <= model.budget
        assert model.over(state) or next(model.moves(state), None) is not None
        if state.order:  # the oldest iteration is never refused
            assert next(model.steps(state, state.order[0], 99, model.used(state)), None) is not None
        if state.asked and not state.before:  # a job that comes in waits only for iterations that began before it asked
            assert model.may_enter(state, state.asked[0])


def test_each_older_iteration_is_checked_by_itself() -> None:
    older = [(3, 1), (3, 1)]  # both hold 1 of a peak of 4
    assert decide(4, True, 0, older, used=2, budget=9) == GRANTED
    assert decide(5, True, 0, older, used=2, budget=9) == RESERVED
    assert decide(8, True, 0, older, used=2, budget=9) == FULL


def test_the_rule_counts_only_on_bytes_that_an_iteration_gives_back() -> None:
    assert decide(2, True, 0, [(0, 3), (5, 1)], used=6, budget=10) == GRANTED
    assert decide(2, True, 0, [(0, 1), (5, 1)], used=6, budget=10) == RESERVED


def test_a_reservation_holds_up_all_but_the_oldest_iteration() -> None:
    assert decide(4, True, 3, [], used=5, budget=10) == GRANTED
    assert decide(4, True, 3, [(0, 0)], used=5, budget=10) == RESERVED
    assert decide(4, False, 3, [], used=5, budget=10) == RESERVED
    assert decide(2, False, 3, [], used=5, budget=10) == GRANTED
