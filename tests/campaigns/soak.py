"""Jobs come, train, serve, are stopped, are killed and leave, for a given time. Is memory flat, and is anything lost?

python tests/campaigns/soak.py [--seconds 300] [--seed 0]. One job trains from the beginning to the end. Others come at
random and run programs of tests/programs: most end by themselves with the losses that they have alone, some are
killed. Meanwhile the budget changes. Every second the resident memory, descriptors and threads of the daemon and of the
long job are read from /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from beside import MIB, Beside
from corpus import SECONDS, Program, environment, plain, programs
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import SetBudget

KINDS = (
    "one_weight",
    "no_optimizer",
    "pool_inference",
    "two_trainers",
    "evaluating",
    "distillation",
    "dqn",
    "nano_gpt",
)
MOST = 3  # jobs beside the long one
KILLED = 0.3  # share of the jobs
STOPPED = 0.2
FLAT = 1.03  # of a quarter's median to the next one's, beyond which memory grows
SLACK_BYTES = 1 * MIB


@dataclass
class Sample:
    """What one process used at one moment."""

    resident_bytes: int
    descriptors: int
    threads: int


def sample(pid: int) -> Sample:
    folder = Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    resident_bytes = int(fields["VmRSS"].split()[0]) << 10
    return Sample(resident_bytes, len(os.listdir(folder / "fd")), int(fields["Threads"]))


@dataclass
class Job:
    """One job that came, and what is to happen to it."""

    program: Program
    process: subprocess.Popen[bytes]
    out: Path
    until: float  # when it hangs
    kill_at: float | None = None
    stop_at: float | None = None
    continue_at: float | None = None
    killed: bool = False


@dataclass
class Soak:
    """The jobs that come and go beside the long one."""

    beside: Beside
    folder: Path
    chance: random.Random
    jobs: list[Job] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def come(self, now: float) -> None:
        """Start a job."""
        self.count("came")
        program = programs()[self.chance.choice(KINDS)]
        out = self.folder / f"{self.counts['came']}.log"
        kind = ["--kind", "inference"] if program.name == "pool_inference" else []
        words = [sys.executable, "-m", "neaptide.cli", "run", "--name", program.name, "--sms", "1", *kind, "--"]
        env = environment(NEAPTIDE_RUNTIME=str(self.beside.paths.folder))
        with out.open("wb") as file:
            process = subprocess.Popen(
                words + program.words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        job = Job(program, process, out, now + SECONDS)
        fate = self.chance.random()
        if fate < KILLED:
            job.kill_at = now + self.chance.uniform(1, 12)
        elif fate < KILLED + STOPPED:
            job.stop_at = now + self.chance.uniform(3, 8)
        self.jobs.append(job)

    def tend(self, now: float) -> None:
        """Kill, stop and continue the jobs whose time has come, and look at those that ended."""
        for job in list(self.jobs):
            if job.process.poll() is not None:
                self.jobs.remove(job)
                self.ended(job)
            elif job.kill_at is not None and now > job.kill_at:
                self.signal(job, signal.SIGKILL)
                job.kill_at, job.killed = None, True
            elif job.stop_at is not None and now > job.stop_at:
                self.signal(job, signal.SIGSTOP)
                self.count("stopped and continued")
                job.stop_at, job.continue_at = None, now + self.chance.uniform(0.2, 4)
            elif job.continue_at is not None and now > job.continue_at:
                self.signal(job, signal.SIGCONT)
                job.continue_at = None
            elif now > job.until:
                self.wrong.append(f"{job.program.name} hangs: {self.beside.status()}")
                self.signal(job, signal.SIGKILL)
                job.killed = True

    def signal(self, job: Job, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(job.process.pid, number)

    def ended(self, job: Job) -> None:
        """Compare a job that ended with the same alone."""
        text = job.out.read_text(errors="replace")
        if job.killed:
            self.count("killed")
        else:
            self.count("ended by themselves")
            losses = [line for line in text.splitlines() if line.startswith("loss ")]
            alone, _ = plain(tuple(job.program.words))
            if job.process.returncode != 0:
                self.wrong.append(f"{job.program.name} ended with {job.process.returncode}: {text.splitlines()[-1:]}")
            elif sorted(losses) != sorted(alone.losses()):
                self.wrong.append(f"the losses of {job.program.name} differ")
        job.out.unlink()


def grows(values: list[int]) -> bool:
    """Whether values still rise after the first half of the time."""
    quarter = len(values) // 4
    third, last = statistics.median(values[2 * quarter : 3 * quarter]), statistics.median(values[3 * quarter :])
    return last > FLAT * third + SLACK_BYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in KINDS:
        plain(tuple(programs()[name].words))
    beside = Beside()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(beside, Path(folder), random.Random(options.seed))
        samples: dict[str, list[Sample]] = {"daemon": [], "long job": []}
        status = beside.status()
        pids = {"daemon": status.pid, "long job": status.jobs[0].pid}
        budgets = [beside.budget_bytes, beside.budget_bytes * 3 // 4, beside.budget_bytes * 2]
        end = time.monotonic() + options.seconds
        next_come = next_sample = next_budget = 0.0
        while (now := time.monotonic()) < end or soak.jobs:
            if now < end and now > next_come and len(soak.jobs) < MOST:
                soak.come(now)
                next_come = now + soak.chance.uniform(0, 4)
            if now > next_budget:
                ask(beside.paths, SetBudget(soak.chance.choice(budgets)))
                soak.count("changes of the budget")
                next_budget = now + soak.chance.uniform(3, 15)
            if now < end and now > next_sample:
                for name, pid in pids.items():
                    samples[name].append(sample(pid))
                next_sample = now + 1
            soak.tend(now)
            time.sleep(0.05)
        wrong = [*soak.wrong, *check(beside)]
    print(", ".join(f"{count} {what}" for what, count in soak.counts.items()))
    for name, seen in samples.items():
        for what in ("resident_bytes", "descriptors", "threads"):
            values = [getattr(each, what) for each in seen]
            scale = MIB if what == "resident_bytes" else 1
            quarter = max(1, len(values) // 4)
            shown = [statistics.median(values[at : at + quarter]) / scale for at in range(0, 4 * quarter, quarter)]
            unit = " MiB" if scale > 1 else ""
            print(f"{name}: {what.removesuffix('_bytes')}{unit} by quarters of the time:", *(f"{v:.1f}" for v in shown))
            if what == "resident_bytes" and grows(values):
                wrong.append(f"the memory of the {name} grows")
            elif what != "resident_bytes" and shown[3] > shown[1] + 2:
                wrong.append(f"the {what} of the {name} grow")
    print("nothing lost, memory flat" if not wrong else "\n".join(wrong))
    return bool(wrong)


def check(beside: Beside) -> list[str]:
    """What is lost when only the long job is left, and when it has left too. Ends the daemon."""
    wrong = []
    status = beside.status()
    if left := [job.name for job in status.jobs if not job.state.ended][1:]:
        wrong.append(f"jobs that are gone are still there: {left}")
    if status.problem:
        wrong.append(f"the daemon says: {status.problem}")
    if not beside.neighbour_is_unchanged():
        wrong.append("the losses of the long job differ")
    beside.end_neighbour()
    until = time.monotonic() + 20
    while beside.status().used_bytes and time.monotonic() < until:
        time.sleep(0.05)
    if used_bytes := beside.status().used_bytes:
        wrong.append(f"{used_bytes} bytes are lost")
    log = beside.paths.log.read_text(errors="replace") if beside.paths.log.exists() else ""
    if "Traceback" in log or "fault" in log:
        wrong.append(f"the daemon's log: {log[-1000:]}")
    beside.close()
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
