"""The order of a verification: sizes, each job alone, both together in three ways, evictions, a refusal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from neaptide import __version__
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.checkup import Grade, examine_for
from neaptide.live.runs.run_jobs import now_in_words
from neaptide.verification import judging
from neaptide.verification.device_count import used_bytes
from neaptide.verification.groups import Group, GroupRun, Groups
from neaptide.verification.moves import move
from neaptide.verification.refusals import JOB, ask_for_too_much
from neaptide.verification.report import Line, Report, Verdict
from neaptide.verification.sizes import binding_budget, suiting_loads

SECONDS, QUICK_SECONDS = 20.0, 3.0  # for which each group is watched
_TURNS, _QUICK_TURNS = 20, 3
_MOVED_BYTES = 256 << 20
_OF_THE_DEVICE = 8  # at most this part of its memory is moved

Say = Callable[[str], None]


def check_machine() -> None:
    """Raise ValueError with what keeps the chosen device from working here, as `neaptide doctor` says it."""
    for each in examine_for(chosen_device()):
        if each.grade is Grade.FAILURE:
            raise ValueError(f"{each.subject}: {each.text}; {each.remedy}")


def verify(quick: bool, say: Say) -> Report:
    """Run everything; `say` is told what runs now."""
    check_machine()
    began, began_at, kind, chosen = monotonic(), now_in_words(), default_kind(), chosen_device()
    at_rest = used_bytes()
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        say("looking for sizes of networks that suit the device")
        loads = suiting_loads(folder)
        groups = Groups(folder, QUICK_SECONDS if quick else SECONDS, at_rest)
        whole_bytes = kind.default_budget_bytes(chosen.index)
        alone, managed = list[GroupRun](), list[GroupRun]()
        for load in loads:
            for runs, group in (
                (alone, Group(f"{load} alone, without neaptide", (load,))),
                (managed, Group(f"{load} alone, under the daemon", (load,), "neaptide", whole_bytes)),
            ):
                say(group.title)
                runs.append(groups.run(group))
        needs = [run.needs_bytes[0] if run.needs_bytes else 0 for run in managed]
        persistent = [run.persistent_bytes[0] if run.persistent_bytes else 0 for run in managed]
        budget_bytes = binding_budget(needs, persistent, kind.chunk_bytes(chosen.index)) if all(needs) else whole_bytes
        together = [
            Group("both at once, without neaptide", loads),
            Group("both in turns", loads, "temporal", budget_bytes),
            Group("both shared", loads, "neaptide", budget_bytes),
        ]
        for group in together:
            say(group.title)
            groups.run(group)
        free, turns, shared = groups.runs[-3:]
        say("evicting and restoring a process")
        moved_bytes = min(_MOVED_BYTES, whole_bytes // _OF_THE_DEVICE)
        moves = move(folder, moved_bytes, _QUICK_TURNS if quick else _TURNS, at_rest)
        say("asking for more than the budget")
        refusal = ask_for_too_much(folder, at_rest)
        lines = [
            _numbers(groups, say),
            judging.judge_data(groups.runs, moves),
            judging.judge_leases(groups.runs),
            judging.judge_device_count(groups.runs),
            judging.judge_ends(groups.runs),
            judging.judge_overhead(alone, managed),
            judging.judge_switch(turns),
            judging.judge_against_turns(shared, turns),
            judging.judge_against_no_limit(shared, free),
            judging.judge_moves(moves),
            judging.judge_refusal(refusal, JOB),
        ]
    return Report(
        neaptide=__version__,
        torch=version("torch"),
        device=kind.description(chosen.index),
        kind=str(chosen),
        jobs=tuple(map(str, loads)),
        budget_bytes=budget_bytes,
        quick=quick,
        began_at=began_at,
        seconds=monotonic() - began,
        lines=tuple(lines),
    )


def _numbers(groups: Groups, say: Say) -> Line:
    """The verdict on numbers. If jobs differ, each runs alone once more, to see whether that differs, too."""
    runs = list(groups.runs)
    line = judging.judge_numbers(runs, None)
    if line.verdict is not Verdict.FAILED:
        return line
    for run in [run for run in runs if run.group.policy is None and len(run.group.loads) == 1]:
        say(f"{run.group.title}, once more")
        again = judging.judge_numbers(runs, groups.run(run.group))
        if again.verdict is not line.verdict:
            return again
    return line
