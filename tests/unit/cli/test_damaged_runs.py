"""`neaptide report` and `replay` of folders that were damaged: one clear line, or a report of what is whole."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neaptide.core.control import events as ev
from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.controller import Decided
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import Header, HeldMemory, Joined, Line, encode_line
from neaptide.core.units import GIB
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.run_folder import EVENTS, RUN, RunFile
from outcomes import ENTRIES, MS, job

COUNT = int(os.environ.get("NEAPTIDE_DAMAGED_RUNS", "60"))  # by hand: 500 and more


def log_lines() -> list[Line]:
    """A log with something of everything that reports read."""
    header = Header(scenario="live", policy="zico", seed=0, device="soft", budget_bytes=5 * GIB, end_ns=0, jobs=())
    facts = [job("a", iterations=None), job("b"), job("s", JobKind.INFERENCE, iterations=None)]
    lines: list[Line] = [header, *(Joined(at_ns=0, facts=each, pid=1, trace=f"{each.name}.trace") for each in facts)]
    lines += [*ENTRIES, ev.JobArrived(20 * MS, "s"), Decided(20 * MS, Admit("s"))]
    for number in range(30):
        at_ns = (21 + number) * MS
        lines += [ev.RequestArrived(at_ns, "s"), Decided(at_ns, Start("s")), HeldMemory(at_ns, {"s": GIB, "": number})]
        lines.append(ev.IterationEnded(at_ns + MS // 2, "s", MS // 2, arrivals_ns=(at_ns,)))
    return [*lines, ev.JobEvicted(60 * MS, "s"), ev.JobResumed(61 * MS, "s"), ev.JobEnded(62 * MS, "s", MS)]


def write_run(folder: Path) -> None:
    folder.mkdir()
    (folder / EVENTS).write_bytes(b"".join(encode_line(line) + b"\n" for line in log_lines()))
    results = tuple(JobResult(name, 0, 3.0, f"{name}.log") for name in "abs")
    file = RunFile(name="three", began_ns=0, high_water_bytes=GIB, interrupted=False, results=results)
    (folder / RUN).write_bytes(msgspec.json.encode(file))


def cut(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(len(data))]


def change_bytes(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 5)):
        changed[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(changed)


def reorder_lines(dice: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(dice.randint(1, 6)):
        lines.insert(dice.randrange(len(lines)), lines.pop(dice.randrange(len(lines))))
    return b"".join(lines[dice.randint(0, 2) :: dice.randint(1, 2)])


def change_values(dice: random.Random, data: bytes) -> bytes:
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(dice.randint(1, 4)):
        _change(dice, dice.choice(lines))
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _change(dice: random.Random, table: dict[str, Any]) -> None:
    key = dice.choice(list(table))
    if isinstance(table[key], dict) and table[key] and dice.random() < 0.8:
        _change(dice, table[key])
    elif isinstance(table[key], list) and table[key] and isinstance(table[key][0], dict):
        _change(dice, dice.choice(table[key]))
    else:
        values = [0, -1, 2**40, 2**62, 2**63, 10**30, 1.5, 1e300, "", "a", "\x1b<b>", None, True, [], {}, [1], "nobody"]
        table[key] = dice.choice(values)


DAMAGES: list[Callable[[random.Random, bytes], bytes]] = [
    cut,
    change_bytes,
    reorder_lines,
    change_values,
    change_values,
]


@pytest.mark.parametrize("command", ["report", "replay"])
def test_a_damaged_run_is_reported_or_refused_in_one_line(run: Any, tmp_path: Path, command: str) -> None:
    dice, refused = random.Random(command), 0
    write_run(tmp_path / "whole")
    assert command == "replay" or run("report", tmp_path / "whole").code == 0
    for number in range(COUNT):
        folder = tmp_path / str(number)
        write_run(folder)
        path = folder / dice.choice((EVENTS, EVENTS, EVENTS, RUN))
        damage = dice.choice(DAMAGES)
        path.write_bytes(damage(dice, path.read_bytes()))
        outcome = run(command, folder)
        assert outcome.code in (0, 1, 2), damage
        if outcome.code == 2:
            refused += 1
            assert outcome.err.startswith("neaptide: ")
            assert outcome.err.count("\n") == 1
    assert refused > COUNT // 5
