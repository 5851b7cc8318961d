"""The simulator's rules a second time, in slow and simple code: everything is computed anew at every step.

Covers jobs that all arrive at once, are all admitted, and start their next iteration at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.simulation.contention import Contention, OpDemand, rates

_ONE = 1 << 22


@dataclass
class _Run:
    trace: Trace
    left: int
    persistent: int
    demands: list[OpDemand]
    work: list[int]
    host: list[int]
    need: list[int]
    lives: list[int]  # ephemeral bytes that live before each op
    done: int = 0
    launched: int = 0
    ready: float = inf
    blocked: str = ""  # the host waits for a slot or for memory
    op_left: int = 0
    rate: int = 0
    ends: list[int] = field(default_factory=list)

    @property
    def held(self) -> int:
        ahead = self.need[self.done : self.launched]
        return max(ahead) if ahead else self.lives[self.done]

    @property
    def still(self) -> int:
        return max(self.need[self.done :])


def run_all(
    jobs: Sequence[tuple[Trace, int]], device: DeviceSpec, budget: int, contention: Contention, in_flight: int
) -> tuple[list[list[int]], int]:
    """When each iteration of each job ends, and the most bytes held."""
    runs = [_prepare(trace, iterations, device) for trace, iterations in jobs]
    by_age = list(runs)
    for run in runs:
        run.ready = run.host[0]
    now, peak, freed = 0, 0, False
    while by_age:
        _set_rates(by_age, runs, contention)
        finishes = {id(run): now + -(-run.op_left // run.rate) for run in by_age if run.launched > run.done}
        if freed and now not in finishes.values():  # waiting jobs get memory after all ops of this time have ended
            freed = False
            _retry(by_age, runs, budget, now, in_flight)
            peak = max(peak, _held(by_age, runs))
            continue
        at = min([*finishes.values(), *(run.ready for run in by_age)])
        assert at < inf, "nothing can happen"
        for run in by_age:
            if run.launched > run.done:
                run.op_left = max(run.op_left - run.rate * (int(at) - now), 0)
        now = int(at)
        ended = next((run for run in runs if run in by_age and finishes.get(id(run)) == now), None)
        if ended is not None:
            _end_op(ended, now, by_age)
            freed = True
        else:
            _launch(next(run for run in by_age if run.ready == now), by_age, runs, budget, now, in_flight)
        peak = max(peak, _held(by_age, runs))
    return [run.ends for run in runs], peak


def _held(by_age: list[_Run], runs: list[_Run]) -> int:
    return sum(run.persistent for run in runs if run.left) + sum(run.held for run in by_age)


def _prepare(trace: Trace, iterations: int, device: DeviceSpec) -> _Run:
    persistent = trace.persistent_bytes
    work, host = _whole(trace.ops.seconds.tolist()), _whole(trace.ops.host_seconds.tolist())
    demands = []
    for op in range(len(trace.ops)):
        seconds = float(trace.ops.seconds[op])
        compute = float(trace.ops.flops[op]) / device.matrix_flops / seconds if seconds else 0.0
        bandwidth = float(trace.ops.moved_bytes[op]) / device.bandwidth / seconds if seconds else 0.0
        alone = 1e-9 * max(work[op], 1)
        demands.append(OpDemand(min(compute, 1.0), min(bandwidth, 1.0), float(trace.ops.fill[op]), seconds=alone))
    tensors = list(
        zip(trace.tensors.bytes.tolist(), trace.tensors.born.tolist(), trace.tensors.died.tolist(), strict=True)
    )
    lives = [0] + [
        max(sum(size for size, born, died in tensors if born < op <= died) - persistent, 0)
        for op in range(1, len(trace.ops))
    ]
    need = [max(held - persistent, 0) for held in trace.held_bytes.tolist()]
    return _Run(trace, iterations, persistent, demands, work, host, need, lives)


def _whole(seconds: list[float]) -> list[int]:
    total, before, found = 0.0, 0, []
    for each in seconds:
        total += each
        found.append(round(total * 1e9) - before)
        before += found[-1]
    return found


def _set_rates(by_age: list[_Run], runs: list[_Run], contention: Contention) -> None:
    busy = [run for run in runs if run in by_age and run.launched > run.done]
    if busy:
        for run, rate in zip(busy, rates([run.demands[run.done] for run in busy], contention), strict=True):
            run.rate = max(1, int(rate * _ONE + 0.5))


def _end_op(run: _Run, now: int, by_age: list[_Run]) -> None:
    run.done += 1
    if run.done == len(run.work):
        run.ends.append(now)
        run.left -= 1
        run.done = run.launched = 0
        by_age.remove(run)
        if run.left:
            by_age.append(run)
            run.ready = now + run.host[0]
        return
    if run.launched > run.done:
        run.op_left = run.work[run.done] * _ONE
    elif not run.trace.asynchronous:
        run.ready = now + run.host[run.launched]
    if run.blocked == "slot":
        run.blocked = ""
        run.ready = now


def _retry(by_age: list[_Run], runs: list[_Run], budget: int, now: int, in_flight: int) -> None:
    for run in list(by_age):
        if run.blocked == "memory":
            _launch(run, by_age, runs, budget, now, in_flight)


def _launch(run: _Run, by_age: list[_Run], runs: list[_Run], budget: int, now: int, in_flight: int) -> None:
    run.ready = inf
    if run.launched - run.done > in_flight:
        run.blocked = "slot"
        return
    wanted = max(run.held, run.need[run.launched])
    if wanted > run.held and not _is_safe(run, wanted, by_age, runs, budget):
        run.blocked = "memory"
        return
    run.blocked = ""
    run.launched += 1
    if run.launched == run.done + 1:
        run.op_left = run.work[run.done] * _ONE
    if run.launched < len(run.work) and run.trace.asynchronous:
        run.ready = now + run.host[run.launched]


def _is_safe(run: _Run, wanted: int, by_age: list[_Run], runs: list[_Run], budget: int) -> bool:
    """Whether all held bytes fit, and every older iteration could still finish beside the younger ones."""
    held = {id(each): each.held for each in by_age} | {id(run): wanted}
    persistent = sum(each.persistent for each in runs if each.left)
    if persistent + sum(held.values()) > budget:
        return False
    for index in range(by_age.index(run)):
        younger = sum(held[id(each)] for each in by_age[index + 1 :])
        if persistent + by_age[index].still + younger > budget:
            return False
    return True
