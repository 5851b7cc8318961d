"""Finds processes of a job that use torch and are not shared, because their Python never read neaptide's bootstrap.

A shell script that replaces PYTHONPATH causes that, and so does `python -I`, `-E` or `-S`, a launcher with a
`sitecustomize` of its own, or a program that was packed with its own Python. The kernel still shows with which
environment and words a process was started, and which files it has mapped: torch's library, and the bootstrap, which
maps itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from threading import Event, Thread

from neaptide.live.protocol.absence import Absence
from neaptide.live.protocol.job_settings import BOOTSTRAP

_LOOK_SECONDS = 1.0
_PROCESSES = Path("/proc")
_READ_IT = b"/neaptide/live/job/bootstrap/sitecustomize.py\n"
_IGNORES_BOOTSTRAP = frozenset("IES")
_TAKES_A_WORD = frozenset("cmWX")  # options of Python; what follows is no option


class Unseen:
    """Looks at the processes whose environment names this daemon and one of these jobs."""

    def __init__(self, socket: Path, jobs: Collection[str], processes: Path = _PROCESSES) -> None:
        self._socket = bytes(socket)
        self._jobs = {job.encode(): job for job in jobs}
        self._processes = processes
        self._others: set[str] = set()  # processes that are of none of these jobs
        self._told: set[str] = set()
        self._prepared: dict[str, _Start] = {}  # by pid; a process that ends unmaps the bootstrap before it is gone
        self._suspected: set[str] = set()  # in the last look

    def look(self) -> Iterator[tuple[int, str, str]]:
        """Processes that were not found before: of each its job, and why neaptide does not see it."""
        there = {each.name for each in self._processes.iterdir() if each.name.isdecimal()}
        self._others &= there
        self._told &= there
        self._prepared = {pid: start for pid, start in self._prepared.items() if pid in there}
        suspected, self._suspected = self._suspected, set()
        for pid in sorted(there - self._others - self._told):
            try:
                start, uses_torch = self._read(pid)
            except OSError:  # it has ended, or is another user's
                continue
            if start is None or not uses_torch:
                continue
            if not (reason := start.why_unprepared()):
                self._suspected.add(pid)
                if pid not in suspected:  # it may just end
                    continue
                reason = start.why_unread()
            self._told.add(pid)
            yield int(pid), start.job, reason

    def _read(self, pid: str) -> tuple[_Start | None, bool]:
        """How a process of one of the jobs was started, and whether it uses torch and has not read the bootstrap."""
        process = self._processes / pid
        items = (process / "environ").read_bytes().split(b"\0")
        variables = dict(item.split(b"=", 1) for item in items if b"=" in item)
        job = self._jobs.get(variables.get(b"NEAPTIDE_JOB", b""))
        if job is None or variables.get(b"NEAPTIDE_SOCKET") != self._socket:
            self._others.add(pid)
            return None, False
        words = tuple((process / "cmdline").read_bytes().split(b"\0"))
        start = _Start(job, words, os.fsdecode(variables.get(b"PYTHONPATH", b"")))
        mapped = (process / "maps").read_bytes()
        if _READ_IT in mapped:
            self._prepared[pid] = start
        return start, b"libtorch" in mapped and self._prepared.get(pid) != start


@dataclass(frozen=True, slots=True)
class _Start:
    """How a process was started."""

    job: str
    words: tuple[bytes, ...]
    python_path: str

    def why_unprepared(self) -> str:
        """Why its Python cannot have read the bootstrap; empty if it can have."""
        left = iter(self.words[1:])
        for word in left:
            if not word.startswith(b"-") or word.startswith(b"--"):
                break
            letters = word[1:].decode(errors="replace")
            flags = "".join(takewhile(lambda letter: letter not in _TAKES_A_WORD, letters))
            if found := _IGNORES_BOOTSTRAP & set(flags):
                return f"Python was started with -{min(found)}, with which it does not read neaptide's part"
            taking, its_word = letters[len(flags) :][:1], letters[len(flags) + 1 :]
            if taking in ("c", "m"):  # what follows is the program's
                break
            if taking and not its_word:
                next(left, None)
        if BOOTSTRAP not in self._folders():
            return "PYTHONPATH was replaced, so Python does not find neaptide's part; add to PYTHONPATH instead"
        return ""

    def why_unread(self) -> str:
        """Why its Python has not read the bootstrap, though it could have."""
        folders = self._folders()
        for folder in folders[: folders.index(BOOTSTRAP)]:
            if (other := folder / "sitecustomize.py").exists():
                return (
                    f"Python reads {other} in place of neaptide's part; put its folder after neaptide's on PYTHONPATH"
                )
        return "its Python does not read PYTHONPATH, on which it would find neaptide's part"

    def _folders(self) -> list[Path]:
        return [Path(folder) for folder in self.python_path.split(os.pathsep) if folder]


@contextmanager
def telling_of_unseen(socket: Path, jobs: Collection[str], tell: Callable[[str, str], None]) -> Iterator[None]:
    """Inside, say of each such process that it is not shared: with `tell(job, line)`, and in the daemon's status."""
    unseen, over, told = Unseen(socket, jobs), Event(), []

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            for pid, job, reason in unseen.look():
                tell(job, f"job {job} (process {pid}) is not shared: {reason}")
                absence = Absence(socket)
                absence.tell(job, reason, pid)
                told.append(absence)

    thread = Thread(target=look, name="neaptide-unseen", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for absence in told:
            absence.end()
