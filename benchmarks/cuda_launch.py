"""What sharing a GPU adds to the launch of an op, beside torch's own allocator, for a job that is alone.

Two processes take turns: one with torch's allocator, one on a board. Nanoseconds are of the launching thread. Callgrind
(valgrind) counts the instructions of the same thread, and those of all threads in a step of GPT-2, where it is
installed. Run it with NEAPTIDE_DEVICE=cuda, on the hollow device: its kernels take 50 us in the steps that are timed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from neaptide.core.text import complain
from neaptide.devices import default_kind
from neaptide.reporting.terminal.bench import Figure

JOB = Path(__file__).with_name("_cuda_launch_job.py")
KINDS = (("reuse", "an op in place"), ("allocate", "an op that allocates"), ("view", "a view"))
ROUNDS, OPS = 15, 500  # fewer than a launch queue holds: nobody waits for the device
STEPS, STEP_ROUNDS = 9, 5
KERNEL_US = 50
INSTRUCTION_OPS, INSTRUCTION_STEPS = 200, 3
GOAL = "<= 1"


class Job:
    """A process that launches ops, with torch's allocator or on a board of its own."""

    def __init__(self, folder: Path, shared: bool, kernel_us: int, prefix: tuple[str, ...] = ()) -> None:
        kind = default_kind()
        words: list[str] = []
        if shared:
            board = folder / f"board-{kernel_us}-{len(prefix)}"
            kind.create_board(board, kind.default_budget_bytes(), kind.board_settings_type()).close()
            words = [str(board)]
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(JOB), *words],
            env=os.environ | {"HOLLOW_KERNEL_US": str(kernel_us)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if prefix else None,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def does(self, line: str) -> list[float]:
        """What it says when it has done so."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the process ended with exit code {self._process.wait()}")
        return [float(word) for word in said.split()]

    def end(self) -> None:
        self._process.communicate()


def figures() -> Iterator[Figure]:
    """Both counts for each kind of op, and the share of a step."""
    if default_kind().name != "cuda":
        raise ValueError("this benchmark is for a GPU: set NEAPTIDE_DEVICE=cuda")
    with tempfile.TemporaryDirectory() as name, ExitStack() as ending:
        folder = Path(name)

        def pair(kernel_us: int) -> list[Job]:
            jobs = [Job(folder, shared, kernel_us) for shared in (False, True)]
            for job in jobs:
                ending.callback(job.end)
            return jobs

        extra_ns = yield from _nanoseconds(pair(kernel_us=1))
        yield from _steps(pair(KERNEL_US), extra_ns)
        yield from _instructions(folder)


def _nanoseconds(jobs: list[Job]) -> Generator[Figure, None, float]:
    worst = 0.0
    for word, title in KINDS:
        for job in jobs:
            job.does(f"{word} {OPS}")
        rounds = [[job.does(f"{word} {OPS}")[0] for job in jobs] for _ in range(ROUNDS)]
        plain, shared = (median(each) for each in zip(*rounds, strict=True))
        extra = median(ours - theirs for theirs, ours in rounds)
        yield Figure(f"{title}: torch's allocator", plain, "ns")
        yield Figure(f"{title}: shared", shared, "ns")
        yield Figure(f"{title}: added", extra, "ns")
        if word != "view":
            worst = max(worst, extra)
    return worst


def _steps(jobs: list[Job], extra_ns: float) -> Iterator[Figure]:
    """What a step takes; and the added time of all its launches, and of all threads, were it not hidden by kernels."""
    rounds = [[job.does(f"step {STEPS}") for job in jobs] for _ in range(STEP_ROUNDS)]
    plain_ns, shared_ns = (median(each[kind][0] for each in rounds) for kind in range(2))
    busy_ns = median(shared[1] - plain[1] for plain, shared in rounds)
    ops = rounds[-1][1][2]
    yield Figure(f"a step of GPT-2 with kernels of {KERNEL_US} us: launches", ops, "")
    yield Figure("a step of GPT-2: torch's allocator", plain_ns * 1e-6, "ms")
    yield Figure("a step of GPT-2: shared", shared_ns * 1e-6, "ms")
    yield Figure("a step of GPT-2: processor time of all threads, added", busy_ns * 1e-6, "ms")
    yield Figure("added to all its launches, of a step", 100 * ops * extra_ns / plain_ns, "%", GOAL)


def _instructions(folder: Path) -> Iterator[Figure]:
    if shutil.which("valgrind") is None:
        complain("valgrind was not found, so instructions are not counted (apt install valgrind)")
        return
    for word, title in (*KINDS, ("step", "a step of GPT-2")):
        plain, shared = (_count(folder, shared, word) for shared in (False, True))
        yield Figure(f"{title}: instructions, torch's allocator", plain, "")
        yield Figure(f"{title}: instructions, shared", shared, "")


def _count(folder: Path, shared: bool, word: str) -> float:
    """Instructions of one op on the launching thread, or of a step on all threads."""
    count = INSTRUCTION_STEPS if word == "step" else INSTRUCTION_OPS
    counts = Path(tempfile.mkdtemp(dir=folder)) / "counts"
    valgrind = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--trace-children=no")
    job = Job(counts.parent, shared, 1, (*valgrind, f"--callgrind-out-file={counts}"))
    job.does(f"{word} {count}")
    _control(job, "--instr=on")
    job.does(f"{word} {count}")
    _control(job, "--instr=off")
    job.end()
    threads = _instructions_of_threads(counts.parent)
    return (sum(threads) if word == "step" else threads[0]) / count


def _control(job: Job, word: str) -> None:
    subprocess.run(
        ["callgrind_control", word, str(job.pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _instructions_of_threads(folder: Path) -> list[int]:
    """Of each thread, the one that launches first; callgrind writes a file for each."""
    texts = [path.read_text() for path in sorted(folder.glob("counts-[0-9][0-9]"))]
    return [sum(map(int, re.findall(r"^totals: (\d+)", text, re.MULTILINE))) for text in texts]
