"""A verdict for each promise, from what happened. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from neaptide.core.units import format_bytes
from neaptide.reporting.logs.metrics import percentile
from neaptide.verification.facts import Refusal
from neaptide.verification.groups import DIGEST_ITERATIONS, GroupRun
from neaptide.verification.moves import Moves
from neaptide.verification.report import Line, Verdict

MOST_OVERHEAD = 1.10  # times the time alone; more than machines differ from run to run
LEAST_AGAINST_TURNS = 0.9  # docs/reliability.md
MOST_SWITCH_MS = 2.0  # in the median
LEAST_COPY_SHARE = 0.5  # of a plain copy's rate; below, evictions do something needless


def judge_numbers(runs: Sequence[GroupRun], again: GroupRun | None) -> Line:
    """Whether every job has the same digest wherever it ran. `again` is a second run of a job alone, if they differ."""
    subject = "numbers alone and shared"
    digests: dict[str, set[str]] = {}
    for run in runs:
        for load, training in zip(run.group.loads, run.trainings, strict=False):
            digests.setdefault(str(load), set()).add(training.digest)
    trainings = [training for run in runs for training in run.trainings]
    if not trainings:
        return Line(subject, Verdict.UNKNOWN, "no training ended")
    if not all(training.computes for training in trainings):
        return Line(subject, Verdict.UNKNOWN, "the device's kernels compute nothing, as those of a stand-in for a GPU")
    figures = {"trainings": len(trainings), "iterations": DIGEST_ITERATIONS}
    different = [name for name, found in digests.items() if len(found) > 1]
    if not different:
        text = f"{len(trainings)} trainings: {DIGEST_ITERATIONS} losses and all parameters are the same, bit by bit"
        return Line(subject, Verdict.OK, text, figures)
    alone = {
        training.digest
        for run in runs
        if run.group.policy is None and len(run.group.loads) == 1
        for training in run.trainings
    }
    if again is not None and not {training.digest for training in again.trainings} <= alone:
        text = f"{', '.join(different)} differs from run to run also alone and without neaptide"
        return Line(subject, Verdict.UNKNOWN, text, figures)
    return Line(subject, Verdict.FAILED, f"{', '.join(different)} computes other numbers when it is shared", figures)


def judge_data(runs: Sequence[GroupRun], moves: Moves) -> Line:
    """Whether what copies and fills wrote is there at the end."""
    blocks = 2 * sum(len(run.trainings) for run in runs)
    wrong = moves.wrong_blocks + sum(training.wrong_blocks for run in runs for training in run.trainings)
    evictions = sum(run.evictions for run in runs) + moves.turns
    text = f"{wrong} wrong of {blocks} blocks of trainings and of a process that was evicted {moves.turns} times"
    if not blocks or moves.problem:
        return Line("data", Verdict.UNKNOWN, moves.problem or "no training ended")
    figures = {"wrong": wrong, "blocks": blocks, "evictions": evictions}
    return Line("data", Verdict.OK if wrong == 0 else Verdict.FAILED, text, figures)


def judge_leases(runs: Sequence[GroupRun]) -> Line:
    """Whether the board has counted no more than the budget."""
    limited = [run for run in runs if run.group.budget_bytes]
    shares = [run.leased_bytes / (run.group.budget_bytes or 1) for run in limited]
    text = f"at most {max(shares):.3f} of the budget was leased, in {len(limited)} runs"
    verdict = Verdict.OK if max(shares) <= 1 else Verdict.FAILED
    return Line("budget, by neaptide's board", verdict, text, {"most of the budget": max(shares)})


def judge_device_count(runs: Sequence[GroupRun]) -> Line:
    """Whether the device itself has counted no more than the budget."""
    subject = "budget, by the device's own count"
    limited = [run for run in runs if run.group.budget_bytes and run.counted_bytes is not None and run.looks]
    if not limited:
        return Line(subject, Verdict.UNKNOWN, "nobody but neaptide counts the bytes of this device")
    worst = max(limited, key=lambda run: (run.counted_bytes or 0) / (run.group.budget_bytes or 1))
    share, looks = (worst.counted_bytes or 0) / (worst.group.budget_bytes or 1), sum(run.looks for run in limited)
    most, budget = format_bytes(worst.counted_bytes or 0), format_bytes(worst.group.budget_bytes or 0)
    text = f"at most {most} of {budget} were in use, contexts included, in {looks} looks"
    figures = {"most of the budget": share, "looks": looks}
    return Line(subject, Verdict.OK if share <= 1 else Verdict.FAILED, text, figures)


def judge_ends(runs: Sequence[GroupRun]) -> Line:
    """Whether every job ended by itself and well."""
    jobs = sum(len(run.group.loads) for run in runs)
    problems = [f"{run.group.title}: {run.problem}" for run in runs if run.problem]
    problems += [
        f"{run.group.title}: {result.name} ended with {result.how}"
        for run in runs
        for result in run.results
        if result.code and not run.problem
    ]
    figures = {"jobs": jobs, "failed": len(problems)}
    if problems:
        return Line("no job killed", Verdict.FAILED, "; ".join(problems), figures)
    return Line("no job killed", Verdict.OK, f"all {jobs} jobs ended by themselves, with exit code 0", figures)


def judge_overhead(alone: Sequence[GroupRun], managed: Sequence[GroupRun]) -> Line:
    """How much longer an iteration of a job alone takes under the daemon."""
    subject = "overhead alone"
    pairs = [
        (one.rates[0], other.rates[0]) for one, other in zip(alone, managed, strict=True) if one.rates and other.rates
    ]
    if not pairs or not all(all(pair) for pair in pairs):
        return Line(subject, Verdict.UNKNOWN, "too few iterations ended")
    ratio = median(plain / under for plain, under in pairs)
    text = (
        f"an iteration under the daemon takes {ratio:.2f} times as long as without neaptide (at most {MOST_OVERHEAD})"
    )
    return Line(subject, Verdict.OK if ratio <= MOST_OVERHEAD else Verdict.FAILED, text, {"times": ratio})


def judge_switch(turns: GroupRun) -> Line:
    """How long the device waits between two jobs' iterations, as the jobs see it."""
    subject = "switch between jobs"
    spans = sorted(
        (first, end, job)
        for job, training in enumerate(turns.trainings)
        for first, end in zip(training.first_launches_ns, training.ends_ns, strict=True)
    )
    gaps = [max(0, first - ended) for (_, ended, one), (first, _, other) in pairwise(spans) if one != other]
    if not gaps:
        return Line(subject, Verdict.UNKNOWN, "the jobs did not take turns")
    middle, high = median(gaps) * 1e-6, (percentile(gaps, 99) or 0) * 1e-6
    text = f"median {middle:.2f} ms (at most {MOST_SWITCH_MS:g}), 99th percentile {high:.2f} ms, {len(gaps)} switches"
    verdict = Verdict.OK if middle <= MOST_SWITCH_MS else Verdict.FAILED
    return Line(subject, verdict, text, {"median ms": middle, "99th ms": high, "switches": len(gaps)})


def judge_against_turns(shared: GroupRun, turns: GroupRun) -> Line:
    """The jobs' work together, against the same jobs in turns under the same budget."""
    subject = "sharing against taking turns"
    ratio = _against(shared, turns)
    if ratio is None:
        return Line(subject, Verdict.UNKNOWN, "too few iterations ended")
    text = f"{ratio:.2f} times the work (at least {LEAST_AGAINST_TURNS}); {shared.evictions} evictions"
    verdict = Verdict.OK if ratio >= LEAST_AGAINST_TURNS else Verdict.FAILED
    return Line(subject, verdict, text, {"times": ratio, "evictions": shared.evictions})


def judge_against_no_limit(shared: GroupRun, free: GroupRun) -> Line:
    """The jobs' work together, against the same jobs without neaptide and with all of the device's memory."""
    subject = "sharing against no limit"
    ratio = _against(shared, free)
    if ratio is None:
        return Line(subject, Verdict.UNKNOWN, "too few iterations ended")
    share = (shared.group.budget_bytes or 0) / max(sum(shared.needs_bytes), 1)
    text = f"{ratio:.2f} times the work, in {share:.2f} of the memory; nothing is promised here"
    return Line(subject, Verdict.OK, text, {"times": ratio, "of the memory": share})


def judge_moves(moves: Moves) -> Line:
    """How fast a job's bytes move to host memory and back."""
    if moves.problem:
        return Line("eviction rate", Verdict.FAILED, moves.problem)
    out, back = moves.out_bytes_per_second / moves.plain_out, moves.back_bytes_per_second / moves.plain_back
    rates = [f"{each / 2**30:.2f} GiB/s" for each in (moves.out_bytes_per_second, moves.back_bytes_per_second)]
    text = f"{rates[0]} out and {rates[1]} back: {out:.2f} and {back:.2f} of a plain copy (at least {LEAST_COPY_SHARE})"
    figures = {"out bytes/s": moves.out_bytes_per_second, "back bytes/s": moves.back_bytes_per_second}
    figures |= {"out of a plain copy": out, "back of a plain copy": back}
    verdict = Verdict.OK if min(out, back) >= LEAST_COPY_SHARE else Verdict.FAILED
    return Line("eviction rate", verdict, text, figures)


def judge_refusal(refusal: Refusal, job: str) -> Line:
    """Whether the error names the job, what it needs, what it holds and the budget, and the program goes on."""
    subject = "out-of-memory error"
    if not refusal.said:
        return Line(subject, Verdict.FAILED, "an allocation beyond the budget gave no torch.OutOfMemoryError")
    missing = [word for word in (f"job {job}", "needs", "holds", "budget") if word not in refusal.said]
    if missing:
        return Line(subject, Verdict.FAILED, f"the error does not name {', '.join(missing)}: {refusal.said}")
    if not refusal.went_on:
        return Line(subject, Verdict.FAILED, "a program that caught it could not go on")
    return Line(subject, Verdict.OK, "it names job, need, held bytes and budget, and the program goes on")


def _against(one: GroupRun, other: GroupRun) -> float | None:
    """Each job's rate relative to its own, so that jobs of different lengths can be averaged."""
    if not one.rates or not other.rates or not all(other.rates):
        return None
    return sum(rate / before for rate, before in zip(one.rates, other.rates, strict=True)) / len(one.rates)
