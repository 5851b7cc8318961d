"""Several processes on one device, through one board."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hangs import HANGS_SECONDS

HERE = Path(__file__).parent
MIB = 1 << 20
KILLS = int(os.environ.get("NEAPTIDE_TEST_KILLS", "6"))  # starting a process takes seconds


class Worker:
    """One child that trains when told."""

    def __init__(self, board: Path, model: str = "resnet18", steps: int = 4, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), model, str(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NEAPTIDE_SOFT_BOARD": str(board), **environment},
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def workers(board: Path, count: int, **options: Any) -> Iterator[list[Worker]]:
    """Children that have joined the board."""
    children = [Worker(board, **options) for _ in range(count)]
    try:
        for child in children:
            assert child.answer()["ready"]
        yield children
    finally:
        for child in children:
            child.end()


def look(board: Path) -> dict[str, Any]:
    """The board's memory as seen by a new process, which first reaps dead ones."""
    code = (
        "import json, neaptide.devices.soft as soft\n"
        "soft.native.reap()\n"
        "print(json.dumps(dict(zip(['used', 'high', 'capacity'], soft.native.board_memory()))))\n"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NEAPTIDE_SOFT_BOARD": str(board)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(seen.stdout)  # type: ignore[no-any-return]


def train_together(board: Path, count: int, **options: Any) -> list[dict[str, Any]]:
    with workers(board, count, **options) as children:
        for child in children:
            child.go()
        return [child.answer() for child in children]


@pytest.mark.parametrize("sms", ["1", "2"])
def test_a_process_beside_others_computes_what_it_does_alone(tmp_path: Path, sms: str) -> None:
    environment = {"NEAPTIDE_SOFT_CAPACITY": "1GiB", "NEAPTIDE_SOFT_SMS": sms}
    alone = train_together(tmp_path / "alone", 1, **environment)
    together = train_together(tmp_path / "together", 3, **environment)
    assert {answer["digest"] for answer in together} == {alone[0]["digest"]}


def test_the_capacity_is_never_exceeded_when_it_is_too_small_for_all_at_once(tmp_path: Path) -> None:
    board = tmp_path / "board"
    answers = train_together(board, 3, steps=6, NEAPTIDE_SOFT_CAPACITY="40MiB", NEAPTIDE_SOFT_WAIT="60")
    assert all("digest" in answer for answer in answers), answers
    seen = look(board)
    assert seen["high"] <= seen["capacity"] == 40 * MIB
    assert seen["used"] == 0


def test_out_of_memory_in_one_process_does_not_disturb_another(tmp_path: Path) -> None:
    board = tmp_path / "board"
    with workers(board, 1, NEAPTIDE_SOFT_CAPACITY="64MiB", steps=6) as (small,):
        small.go()
        code = (
            "import torch, neaptide.devices.soft\n"
            "try: torch.empty(1 << 30, device='soft')\n"
            "except torch.OutOfMemoryError as error: print(error)\n"
        )
        failed = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NEAPTIDE_SOFT_BOARD": str(board), "NEAPTIDE_SOFT_WAIT": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "of the device's 64.0 MiB" in failed.stdout
        assert "digest" in small.answer()


def test_the_bytes_of_killed_processes_are_given_back(tmp_path: Path) -> None:
    board = tmp_path / "board"
    chance = random.Random(0)
    for _ in range(KILLS // 2):
        with workers(board, 2, steps=1000, NEAPTIDE_SOFT_CAPACITY="256MiB") as children:
            for child in children:
                child.go()
            for child in children:
                time.sleep(chance.uniform(0, 0.4))  # so that the process is killed anywhere in its work
                child.process.send_signal(signal.SIGKILL)
    assert look(board)["used"] == 0
    assert "digest" in train_together(board, 1)[0]


def test_idle_threads_do_not_spin(tmp_path: Path) -> None:
    code = (
        "import os, time, torch, neaptide.devices.soft\n"
        "wide = torch.ones(1 << 22, device='soft')\n"
        "spent = []\n"
        "for _ in range(5):\n"
        "    wide.exp()\n"
        "    torch.soft.synchronize()\n"
        "    began = time.process_time()\n"
        "    time.sleep(0.1)\n"
        "    spent.append(time.process_time() - began)\n"
        "print(min(spent))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NEAPTIDE_SOFT_BOARD": str(tmp_path / "board"), "NEAPTIDE_SOFT_SMS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 0.005


def test_a_stopped_process_does_not_hold_up_another(tmp_path: Path) -> None:
    with workers(tmp_path / "board", 2, steps=4, NEAPTIDE_SOFT_SMS="1") as (stopped, running):
        stopped.go()
        stopped.process.send_signal(signal.SIGSTOP)
        try:
            running.go()
            timer = threading.Timer(HANGS_SECONDS, running.process.kill)
            timer.start()
            assert "digest" in running.answer()
            timer.cancel()
        finally:
            stopped.process.send_signal(signal.SIGCONT)
        assert "digest" in stopped.answer()
