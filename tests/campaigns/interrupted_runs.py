"""Interrupts `neaptide run` at random moments, and looks for daemons, jobs and folders that it leaves behind.

The suite does a few (tests/live/test_run_ends.py); by hand:

    python tests/campaigns/interrupted_runs.py 200 [--seed 0] [--real 0.2] [--latest 4]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
KINDS = ("file", "file of shells", "command", "shell", "two commands")
MARK = "NEAPTIDE_CAMPAIGN"  # every process of a trial has it in its environment
END_SECONDS = 180.0  # on a machine that is busy with other things
LATEST_SECONDS = 4.0  # by then the jobs of a trial run

SLEEPER = "import time; time.sleep(300)"
TRAINER = """
import torch
model = torch.nn.Linear(64, 64, device="soft")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(8, 64, device="soft")).sum().backward()
    optimizer.step()
"""


@dataclass
class Trial:
    """One run that is interrupted."""

    kind: str
    number: signal.Signals
    after_seconds: float
    real: bool
    left: list[str] = field(default_factory=list)  # what it left behind; nothing, if all is well
    ended_after_seconds: float = 0.0

    def __str__(self) -> str:
        job = "torch" if self.real else "sleep"
        return f"{self.number.name} to {self.kind} ({job}) after {self.after_seconds:.2f} s"


def interrupt(trial: Trial, folder: Path) -> None:
    """Carry a trial out in an empty folder."""
    (folder / "x").mkdir(mode=0o700)
    program = folder / "job.py"
    program.write_text(TRAINER if trial.real else SLEEPER)
    mark = f"{os.getpid()}-{folder.name}"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "NEAPTIDE_RUNTIME"},
        "XDG_RUNTIME_DIR": str(folder / "x"),
        MARK: mark,
    }
    runs = [_begin(words, folder, environment) for words in _commands(trial, folder)]
    sleep(trial.after_seconds)
    began = monotonic()
    for run in runs:
        run.send_signal(trial.number)
    until = began + END_SECONDS
    while (left := processes(mark)) and monotonic() < until:
        for run in runs:
            run.poll()
        sleep(0.05)
    trial.ended_after_seconds = monotonic() - began
    trial.left += [f"process {pid}: {command}" for pid, command in left.items()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for run in runs:
        run.wait()
    trial.left += [f"folder {path}" for path in (folder / "x").glob("neaptide-run-*")]
    kept = [path for path in (folder / "neaptide-runs").glob("*") if not list(path.glob("*.log"))]
    trial.left += [f"empty folder {path}" for path in kept]


def _commands(trial: Trial, folder: Path) -> list[list[str]]:
    python, program = sys.executable, str(folder / "job.py")
    shell = ["sh", "-c", f"{python} {program}; true"]
    if trial.kind.startswith("file"):
        command = shell if trial.kind == "file of shells" else [python, program]
        words = ", ".join(f"'{word}'" for word in command)
        jobs = [f"[[job]]\nname = '{name}'\ncommand = [{words}]\n" for name in ("a", "b")]
        (folder / "jobs.toml").write_text("budget = '512MiB'\n" + "\n".join(jobs))
        return [["run", "jobs.toml"]]
    one = ["run", "--budget", "512MiB", "--", *(shell if trial.kind == "shell" else [python, program])]
    return [one, one] if trial.kind == "two commands" else [one]


def _begin(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "neaptide.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
        start_new_session=True,  # the signal reaches the run alone, as `kill` sends it
    )


def processes(mark: str) -> dict[int, str]:
    """The processes whose environment has the mark, and their commands."""
    wanted, found = f"{MARK}={mark}".encode(), {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
            except OSError:  # it has just ended, or is another user's
                continue
    return found


def trials(count: int, seed: int, real: float, latest_seconds: float = LATEST_SECONDS) -> list[Trial]:
    """Trials of every kind and signal, at moments from the very start to when the jobs run."""
    dice = random.Random(seed)
    return [
        Trial(
            dice.choice(KINDS),
            SIGNALS[index % len(SIGNALS)],
            latest_seconds * dice.random() ** 1.5,
            dice.random() < real,
        )
        for index in range(count)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", type=float, default=0.2, help="share of trials whose jobs import torch")
    parser.add_argument("--latest", type=float, default=LATEST_SECONDS, help="seconds after which to interrupt")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup: runs would inherit that, and go on by right
            signal.signal(number, signal.SIG_DFL)
    done = trials(given.count, given.seed, given.real, given.latest)
    for index, trial in enumerate(done):
        folder = Path(tempfile.mkdtemp(prefix=f"t{index}-"))
        interrupt(trial, folder)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{index + 1}/{given.count} {trial}: gone after {trial.ended_after_seconds:.1f} s", flush=True)
        for line in trial.left:
            print(f"  LEFT {line}", flush=True)
    by_signal = Counter(trial.number.name for trial in done)
    left = sum(bool(trial.left) for trial in done)
    slowest = max(trial.ended_after_seconds for trial in done)
    print(f"{len(done)} runs interrupted ({dict(by_signal)}): {left} left something; the slowest took {slowest:.1f} s")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
