"""The `neaptide` command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from hangs import HANGS_SECONDS
from neaptide.live.protocol.paths import RuntimePaths


class Command:
    """`neaptide` in a folder and with a runtime directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = RuntimePaths(folder / "r")
        self._environment = {**os.environ, "NEAPTIDE_RUNTIME": str(self.paths.folder)}

    def begin(self, *words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "neaptide.cli", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment,
        )

    def __call__(self, *words: object) -> tuple[int, str, str]:
        process = self.begin(*words)
        out, err = process.communicate(timeout=HANGS_SECONDS)
        return process.returncode, out, err

    def write(self, *programs: tuple[str, str], top: str = "") -> Path:
        """A file of jobs that run these programs."""
        path = self.folder / "jobs.toml"
        tables = [f"[[job]]\nname = {name!r}\ncommand = ['python', '-c', '''{text}''']\n" for name, text in programs]
        path.write_text(top + "\n" + "\n".join(tables))
        return path


def wait_until(there: Callable[[], object]) -> None:
    until = monotonic() + HANGS_SECONDS
    while not there():
        assert monotonic() < until
        sleep(0.02)
