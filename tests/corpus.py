"""The programs of tests/programs: what is expected of each, and what it prints alone on the software GPU."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "programs"
SOURCE = HERE.parents[1] / "src"
SECONDS = 180.0  # a program that takes longer hangs


@dataclass(frozen=True, kw_only=True)
class Program:
    """One entry of the manifest."""

    name: str
    about: str = ""
    needs: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    jobs: int = 1
    threads: bool = False
    refused: str = ""
    exit: int = 0
    by_itself: bool = False
    budget: str = ""

    @property
    def missing(self) -> list[str]:
        """The packages that it needs and that are not here."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]

    @property
    def words(self) -> list[str]:
        """Its command, with the Python that runs this."""
        words = [word.replace("{here}", str(HERE)) for word in self.command] or ["python", f"{HERE / self.name}.py"]
        return [sys.executable if word == "python" else word for word in words]


@dataclass(frozen=True)
class Ran:
    """How a program ended; code is None if it was ended because it hung."""

    code: int | None
    out: str
    errors: str

    def losses(self, any_order: bool = False) -> list[str]:
        lines = [line for line in self.out.splitlines() if line.startswith("loss ")]
        return sorted(lines) if any_order else lines


@cache
def programs() -> dict[str, Program]:
    manifest = tomllib.loads((HERE / "manifest.toml").read_text())
    found = {}
    for name, entry in manifest.items():
        file = HERE / f"{name}.py"
        about = entry.pop("about", "") or (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        found[name] = Program(name=name, about=about, **{**entry, **lists})
    return found


def environment(*search: Path, **more: str) -> dict[str, str]:
    """An environment in which programs are deterministic, find these folders, and never wait for the network."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("NEAPTIDE_")}
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(map(str, (*search, HERE, SOURCE))),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "OMP_NUM_THREADS": "1",
        "NEAPTIDE_SOFT_SMS": "1",  # with one SM, sums have one order
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **more,
    }


def run(words: list[str], env: dict[str, str], seconds: float = SECONDS) -> Ran:
    """Run a command in a process group of its own; if it takes longer than this, the whole group is killed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        errors.seek(0)
        return Ran(code, out.read(), errors.read())


@cache
def plain(words: tuple[str, ...]) -> tuple[Ran, int]:
    """What a command does alone, without a daemon, on a device with room; and the most that it leased, in bytes.

    With the variable KEPT, results are kept in that folder.
    """
    sources = [Path(word).read_bytes() for word in words if word.endswith((".py", ".sh"))]
    digest = hashlib.sha256(repr((words, sources)).encode()).hexdigest()[:16]
    kept = Path(os.environ["KEPT"]) / digest if "KEPT" in os.environ else None
    if kept is not None and kept.exists():
        code, out, errors, peak_bytes = json.loads(kept.read_text())
        return Ran(code, out, errors), peak_bytes
    ran, peak_bytes = _run_plain(words)
    if kept is not None and ran.code is not None:
        kept.write_text(json.dumps((ran.code, ran.out, ran.errors, peak_bytes)))
    return ran, peak_bytes


def _run_plain(words: tuple[str, ...]) -> tuple[Ran, int]:
    with tempfile.TemporaryDirectory() as peaks:
        ran = run(list(words), environment(HERE / "plain", PEAKS=peaks, NEAPTIDE_SOFT_CAPACITY="256MiB"))
        leased = [max(map(int, file.read_text().split())) for file in Path(peaks).iterdir()]
    return ran, sum(leased)
