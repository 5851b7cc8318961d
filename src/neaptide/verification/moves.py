"""A process that is evicted and restored again and again: whether its bytes are the same, and how fast they move."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import TypeVar

import msgspec

from neaptide.devices import Board, default_kind
from neaptide.devices.board import Request, SlotState
from neaptide.live.runs.launching import JobCommand, environment_without_daemon
from neaptide.verification.device_count import wait_for_rest
from neaptide.verification.facts import Check, Holding

_PROGRAM = "neaptide.verification.programs.holding"
_LOOK_SECONDS = 0.0002
_PATIENCE_SECONDS = 60.0
_Fact = TypeVar("_Fact", Holding, Check)


@dataclass(frozen=True, slots=True)
class Moves:
    """Evictions and restores of one process; rates are medians."""

    turns: int
    moved_bytes: int  # by each
    wrong_blocks: int
    out_bytes_per_second: float
    back_bytes_per_second: float
    plain_out: float  # bytes per second of a plain copy to pinned memory
    plain_back: float
    problem: str = ""


def move(folder: Path, size_bytes: int, turns: int, bytes_at_rest: int | None) -> Moves:
    """Evict and restore a process so many times."""
    wait_for_rest(bytes_at_rest)
    kind = default_kind()
    path = folder / "moves"
    board = kind.create_board(path, kind.default_budget_bytes(), kind.board_settings_type())
    command = (sys.executable, "-m", _PROGRAM, str(path), str(size_bytes))
    environment = environment_without_daemon(JobCommand(name="holder", command=command), kind.settings_type(), path)
    errors = folder / "moves.log"
    with errors.open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        return _turns(process, board, turns)
    except (EOFError, TimeoutError) as error:
        last = errors.read_text(errors="replace").strip().splitlines()[-1:]
        return Moves(0, 0, 0, 0.0, 0.0, 0.0, 0.0, " ".join([str(error), *last]))
    finally:
        process.kill()
        process.communicate()
        board.close()


def _turns(process: subprocess.Popen[str], board: Board, turns: int) -> Moves:
    held = _answer(process, Holding)
    out: list[float] = []
    back: list[float] = []
    wrong = moved_bytes = 0
    for _ in range(turns):
        before_bytes = board.progress(held.slot).held_bytes
        out.append(_seconds(board, held.slot, Request.EVICT, lambda state: state is SlotState.EVICTED))
        moved_bytes = before_bytes - board.progress(held.slot).held_bytes
        back.append(_seconds(board, held.slot, Request.RESTORE, lambda state: state is not SlotState.EVICTED))
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        wrong += _answer(process, Check).wrong_blocks
    return Moves(
        turns,
        moved_bytes,
        wrong,
        moved_bytes / sorted(out)[turns // 2],
        moved_bytes / sorted(back)[turns // 2],
        held.out_bytes_per_second,
        held.back_bytes_per_second,
    )


def _seconds(board: Board, slot: int, request: Request, done: Callable[[SlotState], bool]) -> float:
    """How long the process takes to do what it is asked."""
    began, until = perf_counter(), monotonic() + _PATIENCE_SECONDS
    board.set_request(slot, request)
    while not done(board.progress(slot).state):
        if monotonic() > until:
            raise TimeoutError(f"{request.name} took longer than {_PATIENCE_SECONDS:.0f} s")
        sleep(_LOOK_SECONDS)
    return perf_counter() - began


def _answer(process: subprocess.Popen[str], kind: type[_Fact]) -> _Fact:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise EOFError(f"the process ended with {process.wait()}:")
    return msgspec.json.decode(line, type=kind)
