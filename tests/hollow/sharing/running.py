"""Runs programs of this folder on a hollow device of their own."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neaptide
from neaptide.devices import Board
from neaptide.devices.board.figures import SlotFigures

_HERE = Path(__file__).parent
_SOURCE = Path(neaptide.__file__).parents[1]  # PYTHONPATH may name it from another folder
_SECONDS = 900  # a hang is a failure


class Hollow:
    """A hollow GPU and a board in a folder of their own."""

    def __init__(self, folder: Path, memory: str = "2G", kernel_us: int = 20) -> None:
        self.folder = folder
        self.libraries = next(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/cu13/lib"))
        self.environment = os.environ | {
            "HOLLOW_BOARD": str(folder / "device"),
            "HOLLOW_MEMORY": memory,
            "HOLLOW_KERNEL_US": str(kernel_us),
            "HOLLOW_CONTEXT": "64M",
            "BOARD": str(folder / "board"),
            "NEAPTIDE_DEVICE": "cuda",
            "NEAPTIDE_RUNTIME": str(folder / "run"),
            "PYTHONPATH": os.pathsep.join([str(_HERE / "programs"), str(_SOURCE), os.environ.get("PYTHONPATH", "")]),
            # On a machine with a GPU the driver's libraries are where every program looks.
            "LD_LIBRARY_PATH": os.pathsep.join([str(self.libraries), os.environ.get("LD_LIBRARY_PATH", "")]),
        }

    def start(self, program: str, **environment: str) -> subprocess.Popen[str]:
        """A program that runs beside the test."""
        return subprocess.Popen(
            [sys.executable, str(_HERE / "programs" / f"{program}.py")],
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def make_board(self, budget_bytes: int, **settings: bool) -> None:
        """Make the board that programs share, before several of them start at once."""
        call = "from sharing import KIND; from pathlib import Path; import os; "
        call += f"KIND.create_board(Path(os.environ['BOARD']), {budget_bytes}, KIND.board_settings_type(**{settings}))"
        subprocess.run([sys.executable, "-c", call], env=self.environment, check=True, timeout=_SECONDS)

    def device_peak_bytes(self, device: int = 0) -> int:
        """The most bytes that the hollow device has held, by its own count."""
        library = ctypes.CDLL(str(self.libraries / "libhollow.so"))
        library.hollow_open.restype = ctypes.c_void_p
        library.hollow_peak.restype, library.hollow_peak.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_int)
        library.hollow_close.argtypes = (ctypes.c_void_p,)
        board = library.hollow_open(os.fsencode(self.folder / "device"))
        try:
            return int(library.hollow_peak(board, device))
        finally:
            library.hollow_close(board)

    def wait_until_a_process_waits(self) -> None:
        """Wait until a process on the board waits for memory."""
        self._wait_until(lambda slot: slot.wanted_bytes > 0)

    def wait_until_a_process_waits_and_has_nothing_on_the_device(self) -> None:
        """As above, and all that the process has launched counts as done."""
        self._wait_until(lambda slot: slot.wanted_bytes > 0 and 0 < slot.launched == slot.done)

    def _wait_until(self, is_so: Callable[[SlotFigures], bool]) -> None:
        board = Board.open(self.folder / "board")
        deadline = time.monotonic() + _SECONDS
        while not any(map(is_so, board.snapshot().slots)):
            assert time.monotonic() < deadline, "no process waits so"
            time.sleep(0.01)
        board.close()

    def run(self, program: str, **environment: str) -> dict[str, Any]:
        """The facts that a program tells at its end."""
        return facts_of(self.start(program, **environment))


def facts_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The facts that a started program tells at its end; it must end well."""
    out, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, err[-4000:]
    facts: dict[str, Any] = json.loads(out.splitlines()[-1])
    return facts


def next_facts(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The facts that a program tells next."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the program ended: {process.communicate()[1][-4000:]}"
    facts: dict[str, Any] = json.loads(line)
    return facts


def kill(process: subprocess.Popen[str]) -> None:
    """End a program at once, and wait for its end."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
